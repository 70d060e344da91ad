#include "readers/parse_sequence_example.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "readers/example/feature_lists.h"
#include "readers/example/feature_spec.h"
#include "readers/example/run.h"

namespace millrace::readers {
namespace {

constexpr std::string_view kSequenceOp = "parse_sequence_example";

class ParseSequenceExample final : public Op {
 public:
  explicit ParseSequenceExample(ParseSequenceExampleOptions options)
      : features_(std::move(options.features)),
        field_(std::move(options.field)),
        context_(Only(false)),
        lists_(Only(true)),
        context_keys_(context_),
        list_keys_(lists_) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return internal::ResolveFeatures(kSequenceOp, field_, features_, input);
  }

  // An Example is found in the record, and its fields in what that skips.
  void Apply(Run& run) const override {
    const Column records = run.Take(field_);
    internal::ExampleRun(context_, context_keys_, internal::kSequenceExample, run).Parse(records);
    internal::FeatureListRun(lists_, list_keys_, run).Parse(records);
  }

 private:
  std::vector<FeatureSpec> Only(bool per_step) const {
    std::vector<FeatureSpec> some;
    std::ranges::copy_if(features_, std::back_inserter(some),
                         [&](const FeatureSpec& spec) { return spec.per_step == per_step; });
    return some;
  }

  const std::vector<FeatureSpec> features_;
  const std::string field_;
  const std::vector<FeatureSpec> context_;
  const std::vector<FeatureSpec> lists_;
  const internal::FeatureKeys context_keys_;
  const internal::FeatureKeys list_keys_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeParseSequenceExample(ParseSequenceExampleOptions options) {
  MILLRACE_RETURN_IF_ERROR(internal::CheckFeatures(kSequenceOp, options.features, true));
  return std::make_unique<ParseSequenceExample>(std::move(options));
}

}  // namespace millrace::readers
