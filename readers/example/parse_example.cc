#include "readers/parse_example.h"

#include <string_view>
#include <utility>

#include "base/status.h"
#include "readers/example/feature_spec.h"
#include "readers/example/run.h"

namespace millrace::readers {
namespace {

constexpr std::string_view kExampleOp = "parse_example";

class ParseExample final : public Op {
 public:
  explicit ParseExample(ParseExampleOptions options)
      : features_(std::move(options.features)),
        field_(std::move(options.field)),
        keys_(features_) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return internal::ResolveFeatures(kExampleOp, field_, features_, input);
  }

  void Apply(Run& run) const override {
    const Column records = run.Take(field_);
    internal::ExampleRun(features_, keys_, "tf.train.Example", run).Parse(records);
  }

 private:
  const std::vector<FeatureSpec> features_;
  const std::string field_;
  const internal::FeatureKeys keys_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeParseExample(ParseExampleOptions options) {
  MILLRACE_RETURN_IF_ERROR(internal::CheckFeatures(kExampleOp, options.features));
  return std::make_unique<ParseExample>(std::move(options));
}

}  // namespace millrace::readers
