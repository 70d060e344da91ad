#include "cli/flags/where.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::cli {
namespace {

using readers::FeatureValues;

// A view of the values as a column's value.
absl::StatusOr<ConstTensorView> ViewOf(const std::string& name, const FeatureValues& values) {
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&values)) {
    return ConstTensorView(ints->data(), DType::kI64, {static_cast<int64_t>(ints->size())});
  }
  if (const auto* floats = std::get_if<std::vector<float>>(&values)) {
    return ConstTensorView(floats->data(), DType::kF32, {static_cast<int64_t>(floats->size())});
  }
  const auto& strings = std::get<std::vector<std::string_view>>(values);
  if (strings.size() == 1) {
    return ConstTensorView(strings[0].data(), DType::kBytes,
                           {static_cast<int64_t>(strings[0].size())});
  }
  return absl::InvalidArgumentError(
      absl::StrCat("feature \"", name, "\" holds ", strings.size(), " strings, not one"));
}

// True if the record has the feature, even as an empty list of numbers.
bool IsThere(const FeatureValues& values) {
  const auto* strings = std::get_if<std::vector<std::string_view>>(&values);
  return strings != nullptr ? !strings->empty() : !std::holds_alternative<std::monostate>(values);
}

bool IsOneNumber(const ConstTensorView& view) {
  return view.dtype != DType::kBytes && view.shape[0] == 1;
}

}  // namespace

absl::StatusOr<Where> Where::Parse(std::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(pipeline::Predicate predicate, pipeline::Predicate::Parse(text));
  return Where(std::move(predicate));
}

absl::StatusOr<bool> Where::Matches(std::string_view payload) {
  ++num_records_;
  MILLRACE_ASSIGN_OR_RETURN(const auto features, readers::ViewExample(payload));
  for (const std::string& name : predicate_.fields()) {
    const auto it = features.find(name);
    if (it != features.end() && IsThere(it->second)) continue;
    ++num_without_[name];
    return false;
  }
  MILLRACE_ASSIGN_OR_RETURN(const bool matches, Evaluate(features));
  num_matches_ += matches ? 1 : 0;
  return matches;
}

// Records of one file nearly always have the same types.
absl::Status Where::Resolve(const Schema& schema) {
  if (schema.fields() == schema_.fields()) return absl::OkStatus();
  pipeline::Predicate resolved = predicate_;
  MILLRACE_RETURN_IF_ERROR(resolved.Resolve(schema));
  resolved_ = std::move(resolved);
  schema_ = schema;
  return absl::OkStatus();
}

absl::StatusOr<bool> Where::Evaluate(const std::map<std::string, FeatureValues>& features) {
  RunArena arena(/*chunk_bytes=*/1024);
  Run run(arena, 0, 0, std::vector<SampleId>(1));
  Schema scalars;  // a single number is the field's value
  Schema lists;
  for (const std::string& name : predicate_.fields()) {
    MILLRACE_ASSIGN_OR_RETURN(const ConstTensorView view, ViewOf(name, features.at(name)));
    // An empty vector may have no address, but the feature is there.
    const void* const data = view.data == nullptr ? arena.Allocate(0) : view.data;
    run.Add(name, view.dtype).Set(0, data, view.shape);
    lists.Set({name, view.dtype, {Shape::kUnknown}});
    scalars.Set({name, view.dtype, {IsOneNumber(view) ? 1 : Shape::kUnknown}});
  }
  if (const absl::Status status = Resolve(scalars); !status.ok()) {
    // The predicate may take an element behind the end of a list that has one number here.
    if (!Resolve(lists).ok()) return status;
  }
  uint8_t keep = 0;
  resolved_.Evaluate(run, {&keep, 1});
  MILLRACE_RETURN_IF_ERROR(run.status(0));
  return keep != 0;
}

std::string Where::Summary() const {
  std::string text = absl::StrCat("matched ", num_matches_, " of ", num_records_, " record",
                                  num_records_ == 1 ? "" : "s");
  std::string_view separator = " (";
  for (const auto& [name, count] : num_without_) {
    absl::StrAppend(&text, ToAbsl(separator), count, " without feature ", name);
    separator = ", ";
  }
  return num_without_.empty() ? text : text + ")";
}

}  // namespace millrace::cli
