#include "readers/tools/feature_table.h"

#include <cmath>
#include <cstring>
#include <utility>
#include <variant>

#include "readers/example/parser.h"
#include "readers/image_header.h"
#include "readers/text/number_text.h"

namespace millrace::readers::internal {
namespace {

void AddBytes(std::string_view value, FeatureReport& report) {
  report.byte_lengths.Add(value.size());
  const std::string_view format = GuessImageFormat(value);
  if (format.empty()) return;
  ++report.image_formats[std::string(format)];
  if (format != "png" && format != "jpeg") return;
  const auto header = ReadImageHeader(value);
  if (!header.ok()) {
    ++report.num_bad_images;
    return;
  }
  report.image_heights.Add(header->height);
  report.image_widths.Add(header->width);
  report.image_channels.Add(header->channels);
}

void AddFloat(float value, FeatureReport& report) {
  if (std::isnan(value)) {
    ++report.num_nan;
  } else {
    report.floats.Add(value);
  }
}

// Adds the values of one record's feature to its report. A list that another kind follows in the
// same Feature does not count, so lists are decoded once for the kind and once for the values.
class KindSink {
 public:
  void Begin(FeatureKind kind) {
    kind_ = kind;
    ++num_begun_;
    num_values_ = 0;
  }
  void Bytes(std::string_view) { ++num_values_; }
  void Int(int64_t) { ++num_values_; }
  void Floats(std::string_view packed) { num_values_ += packed.size() / 4; }

  FeatureKind kind() const { return kind_; }
  int num_begun() const { return num_begun_; }
  uint64_t num_values() const { return num_values_; }

 private:
  FeatureKind kind_ = FeatureKind::kNone;
  int num_begun_ = 0;
  uint64_t num_values_ = 0;
};

class StatsSink {
 public:
  // Counts the values of the `number`th list only.
  StatsSink(int number, FeatureReport* report) : number_(number), report_(*report) {}

  void Begin(FeatureKind) { --number_; }
  void Bytes(std::string_view value) {
    if (number_ == 0) AddBytes(value, report_);
  }
  void Int(int64_t value) {
    if (number_ == 0) report_.ints.Add(value);
  }
  void Floats(std::string_view packed) {
    for (size_t i = 0; number_ == 0 && i < packed.size(); i += 4) {
      float value;
      std::memcpy(&value, packed.data() + i, 4);
      AddFloat(value, report_);
    }
  }

 private:
  int number_;
  FeatureReport& report_;
};

uint64_t& Count(FeatureKind kind, FeatureReport& report) {
  switch (kind) {
    case FeatureKind::kBytes:
      return report.num_bytes;
    case FeatureKind::kFloat:
      return report.num_floats;
    case FeatureKind::kInt:
      return report.num_ints;
    case FeatureKind::kNone:
      break;
  }
  return report.num_none;
}

// Whether text begins with a zero that a number would lose, as a postcode does.
bool LosesZero(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

// A text that may stand for a number; an empty one stands for none.
void AddText(std::string_view bytes, FeatureReport& report) {
  constexpr size_t kMostOfNumber = 64;
  const std::string_view text =
      bytes.size() <= kMostOfNumber ? NumberInFile(bytes).value_or(bytes) : bytes;
  int64_t whole = 0;
  float number = 0;
  if (text.empty()) {
    ++report.num_none;
    return;
  }
  report.num_values.Add(1);
  if (LosesZero(text) || text.size() > kMostOfNumber) {
    ++report.num_bytes;
    AddBytes(bytes, report);
  } else if (ParseInt(text, &whole) == nullptr) {
    ++report.num_ints;
    report.ints.Add(whole);
  } else if (ParseFloat(text, &number) == nullptr) {
    ++report.num_floats;
    AddFloat(number, report);
  } else {
    ++report.num_bytes;
    AddBytes(bytes, report);
  }
}

// True for a list without values, whose kind nothing tells.
bool IsEmptyList(const FeatureValues& values) {
  const auto* const ints = std::get_if<std::vector<int64_t>>(&values);
  return ints != nullptr && ints->empty();
}

void AddValues(const FeatureValues& values, FeatureReport& report) {
  if (IsEmptyList(values)) {
    ++report.num_none;
    report.num_values.Add(0);
  } else if (const auto* const views = std::get_if<std::vector<std::string_view>>(&values)) {
    ++report.num_bytes;
    report.num_values.Add(views->size());
    for (const std::string_view view : *views) AddBytes(view, report);
  } else if (const auto* const floats = std::get_if<std::vector<float>>(&values)) {
    ++report.num_floats;
    report.num_values.Add(floats->size());
    for (const float value : *floats) AddFloat(value, report);
  } else if (const auto* const ints = std::get_if<std::vector<int64_t>>(&values)) {
    ++report.num_ints;
    report.num_values.Add(ints->size());
    for (const int64_t value : *ints) report.ints.Add(value);
  } else {
    ++report.num_none;
  }
}

void AddFeature(std::string_view payload, const FeatureEntry& entry, FeatureReport& report) {
  WireError error;
  KindSink kind;
  DecodeFeature(payload, entry, &error, kind);
  StatsSink stats(kind.num_begun(), &report);
  DecodeFeature(payload, entry, &error, stats);
  Count(kind.kind(), report) += 1;
  if (kind.kind() != FeatureKind::kNone) report.num_values.Add(kind.num_values());
}

}  // namespace

bool FeatureTable::AddExample(std::string_view payload) {
  WireError error;
  if (!CheckExample(payload, &error)) return false;
  std::map<std::string_view, FeatureEntry> entries;  // of a key given twice the later wins
  VisitExample(payload, &error,
               [&](const FeatureEntry& entry) { entries.insert_or_assign(entry.key, entry); });
  for (const auto& [key, entry] : entries) {
    if (FeatureReport* const report = Find(key)) AddFeature(payload, entry, *report);
  }
  return true;
}

void FeatureTable::Add(const NamedValues& values, Widening widening) {
  for (const auto& [name, list] : values) {
    FeatureReport* const report = Find(name);
    if (report == nullptr) continue;
    report->widening = widening;
    const auto* const views = std::get_if<std::vector<std::string_view>>(&list);
    if (widening == Widening::kText && views != nullptr && views->size() == 1) {
      AddText(views->front(), *report);
    } else {
      AddValues(list, *report);
    }
  }
}

FeatureReport* FeatureTable::Find(std::string_view key) {
  auto it = reports_.find(key);
  if (it == reports_.end()) {
    if (reports_.size() >= max_features_) {
      ++num_unfollowed_;
      return nullptr;
    }
    it = reports_.emplace(std::string(key), FeatureReport()).first;
    it->second.key = it->first;
    it->second.place = reports_.size() - 1;
  }
  return &it->second;
}

std::vector<FeatureReport> FeatureTable::Take() {
  std::vector<FeatureReport> reports;
  for (auto& [key, report] : reports_) reports.push_back(std::move(report));
  return reports;
}

}  // namespace millrace::readers::internal
