#include "cli/page/row_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/page/histogram.h"
#include "cli/page/html.h"
#include "cli/page/row_value.h"
#include "pipeline/plan_view.h"

namespace millrace::cli {
namespace {

constexpr int64_t kMaxTokens = 64;  // of a row

// Calls f(row) for each row that holds a sample.
template <typename Function>
void ForEachRow(const pipeline::Batch& batch, const Function& f) {
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    if (batch.valid()[static_cast<size_t>(row)] != 0) f(row);
  }
}

std::string TokensHtml(const RowValue& value, const std::vector<std::string_view>& tokens) {
  const int64_t count = value.shape().num_elements();
  std::string html;
  for (int64_t i = 0; i < std::min(count, kMaxTokens); ++i) {
    const double id = value.at(i);
    const bool known = id >= 0 && id < static_cast<double>(tokens.size());
    const std::string_view word = known ? tokens[static_cast<size_t>(id)] : "";
    absl::StrAppendFormat(&html, "%s<span class=\"token\">%s<sub>%.10g</sub></span>",
                          i == 0 ? "" : " ", EscapeHtml(word), id);
  }
  if (count > kMaxTokens) absl::StrAppend(&html, " ... ", count, " tokens");
  return html;
}

// True if values of the field are numbers for people: bytes are text or pixels.
bool IsNumeric(const ConstTensorView& tensor) {
  return tensor.dtype != DType::kU8 || tensor.shape.rank() == 1;
}

}  // namespace

bool IsSplits(const pipeline::Batch& batch, const std::string& name) {
  constexpr std::string_view kEnd = "/row_splits";
  return name.ends_with(kEnd) &&
         batch.Find(name.substr(0, name.size() - kEnd.size())).data != nullptr;
}

RowTable::RowTable(const pipeline::Plan& plan, const Schema& fields) {
  for (const Field& field : fields.fields()) {
    auto vocabulary = pipeline::VocabularyOf(plan, field.name);
    if (vocabulary == nullptr) continue;
    std::vector<std::string_view> tokens = vocabulary->Tokens();
    words_[field.name] = {std::move(vocabulary), std::move(tokens)};
  }
}

std::string RowTable::Begin(const pipeline::Batch& batch) const {
  std::string html = "<table><tr><th>row</th>";
  for (const std::string& name : batch.names()) {
    if (!IsSplits(batch, name)) absl::StrAppend(&html, "<th>", EscapeHtml(name), "</th>");
  }
  return html + "<th>from</th></tr>\n";
}

std::string RowTable::Row(const pipeline::Batch& batch, int64_t row, std::string_view from) const {
  std::string html = absl::StrCat("<tr><td>", row, "</td>");
  for (size_t i = 0; i < batch.names().size(); ++i) {
    if (IsSplits(batch, batch.names()[i])) continue;
    absl::StrAppend(&html, "<td>", Cell(batch, i, row), "</td>");
  }
  return absl::StrCat(html, "<td class=\"from\">", EscapeHtml(from), "</td></tr>\n");
}

std::string RowTable::End(const pipeline::Batch& batch) const {
  std::string html = "</table>\n<section>\n";
  for (size_t i = 0; i < batch.names().size(); ++i) {
    if (IsSplits(batch, batch.names()[i])) continue;
    absl::StrAppend(&html, HistogramOf(batch, i), LengthsOf(batch, i));
  }
  return html + "</section>\n";
}

std::string RowTable::Cell(const pipeline::Batch& batch, size_t tensor, int64_t row) const {
  const RowValue value = RowValue::Of(batch, tensor, row);
  const auto words = words_.find(batch.names()[tensor]);
  return words == words_.end() ? EscapeHtml(value.ToText())
                               : TokensHtml(value, words->second.tokens);
}

std::string RowTable::HistogramOf(const pipeline::Batch& batch, size_t tensor) const {
  if (!IsNumeric(batch.tensor(tensor))) return "";
  const auto for_each_value = [&](const auto& f) {
    ForEachRow(batch, [&](int64_t row) {
      const RowValue value = RowValue::Of(batch, tensor, row);
      for (int64_t i = 0; i < value.shape().num_elements(); ++i) f(value.at(i));
    });
  };
  ValueRange range;
  for_each_value([&](double value) { range.Add(value); });
  Histogram histogram(range);
  for_each_value([&](double value) { histogram.Count(value); });
  return histogram.ToHtml(batch.names()[tensor]);
}

std::string RowTable::LengthsOf(const pipeline::Batch& batch, size_t tensor) const {
  ValueRange range;
  const auto for_each_length = [&](const auto& f) {
    ForEachRow(batch, [&](int64_t row) {
      const Shape shape = batch.row_shape(tensor, row);
      if (shape.rank() > 0) f(static_cast<double>(shape[0]));
    });
  };
  for_each_length([&](double length) { range.Add(length); });
  if (range.low() == range.high()) return "";
  Histogram histogram(range);
  for_each_length([&](double length) { histogram.Count(length); });
  return histogram.ToHtml(absl::StrCat("length of ", batch.names()[tensor]));
}

}  // namespace millrace::cli
