#include "readers/parse_example.h"

#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/example_run_internal.h"

namespace millrace::readers {
namespace {

using internal::IsRagged;

constexpr int64_t kMaxElements = int64_t{1} << 31;  // of a feature; a record holds no more

absl::Status CheckSpec(const FeatureSpec& spec) {
  const auto bad = [&](std::string_view text) {
    return absl::InvalidArgumentError(
        absl::StrCat("parse_example: feature '", spec.key, "': ", ToAbsl(text)));
  };
  if (spec.name.empty()) return bad("no column name");
  if (spec.dtype == DType::kBytes) return absl::OkStatus();
  if (spec.dtype != DType::kI64 && spec.dtype != DType::kF32) {
    return bad(absl::StrCat("dtype ", ToAbsl(Name(spec.dtype)),
                            "; an Example holds bytes, int64 and float32"));
  }
  int64_t elements = 1;
  for (int i = 0; i < spec.shape.rank(); ++i) {
    const int64_t extent = spec.shape[i];
    if (i == 0 && extent == Shape::kUnknown) continue;
    if (extent < 0) return bad("only the first extent of its shape may be unknown");
    if (extent > 0 && elements > kMaxElements / extent) return bad("its shape is too large");
    elements *= extent;
  }
  if (elements == 0 && IsRagged(spec)) return bad("an unknown extent of values without elements");
  return absl::OkStatus();
}

class ParseExample final : public Op {
 public:
  explicit ParseExample(ParseExampleOptions options)
      : features_(std::move(options.features)),
        field_(std::move(options.field)),
        keys_(features_) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_RETURN_IF_ERROR(Annotate(input.CheckHas(field_), "parse_example"));
    if (input.Find(field_)->dtype != DType::kBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("parse_example: field '", field_, "' must be bytes"));
    }
    Schema output = input;
    output.Remove(field_);
    for (const FeatureSpec& spec : features_) {
      if (output.Find(spec.name) != nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("parse_example: field '", spec.name, "' exists already"));
      }
      output.Set({spec.name, spec.dtype,
                  spec.dtype == DType::kBytes ? Shape{Shape::kUnknown} : spec.shape});
    }
    return output;
  }

  void Apply(Run& run) const override {
    const Column records = run.Take(field_);
    internal::ExampleRun(features_, keys_, run).Parse(records);
  }

 private:
  const std::vector<FeatureSpec> features_;
  const std::string field_;
  const internal::FeatureKeys keys_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeParseExample(ParseExampleOptions options) {
  if (options.features.empty()) {
    return absl::InvalidArgumentError("parse_example: no feature is asked for");
  }
  std::set<std::string_view> keys;
  std::set<std::string_view> names;
  for (const FeatureSpec& spec : options.features) {
    MILLRACE_RETURN_IF_ERROR(CheckSpec(spec));
    if (!keys.insert(spec.key).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("parse_example: feature '", spec.key, "' is asked for twice"));
    }
    if (!names.insert(spec.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("parse_example: column '", spec.name, "' is given twice"));
    }
  }
  return std::make_unique<ParseExample>(std::move(options));
}

}  // namespace millrace::readers
