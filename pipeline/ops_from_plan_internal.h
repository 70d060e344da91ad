#ifndef MILLRACE_PIPELINE_OPS_FROM_PLAN_INTERNAL_H_
#define MILLRACE_PIPELINE_OPS_FROM_PLAN_INTERNAL_H_

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "augment/image_ops.h"
#include "base/op.h"
#include "pipeline/plan_message_internal.h"
#include "readers/parse_example.h"

// The one-to-one stages of a plan as plain options: what the optimizer's rules rewrite. Ops are
// made from them afterwards.

namespace millrace::pipeline {

// decode_image and random_resized_crop in one (rule decode_region).
struct DecodeRegionOptions {
  augment::DecodeImageOptions decode;
  augment::RandomResizedCropOptions crop;
};

using OpOptions =
    std::variant<readers::ParseExampleOptions, augment::DecodeImageOptions,
                 augment::RandomResizedCropOptions, DecodeRegionOptions, augment::ResizeOptions,
                 augment::FlipOptions, augment::NormalizeOptions, augment::CastOptions,
                 augment::OneHotOptions>;

struct OpSpec {
  std::string stage;  // identity of the random draws
  std::string where;  // FILE:LINE:COLUMN of the stage
  OpOptions options;
};

// Fields by name that an op reads, writes (all of them anew), and takes away.
struct OpFields {
  std::vector<std::string> reads;
  std::vector<std::string> writes;
  std::vector<std::string> removes;
};
OpFields FieldsOf(const OpOptions& options);

// "decode_image", ...
std::string OpName(const OpOptions& options);

// The maps of the plan, in order.
std::vector<OpSpec> OpsFromPlan(const PlanMessage& plan);

// Makes the op of a spec. Tests pass their own.
using OpFactory = std::function<absl::StatusOr<std::unique_ptr<Op>>(const OpSpec&)>;
// By readers::Make... and augment::Make...
absl::StatusOr<std::unique_ptr<Op>> MakeBuiltinOp(const OpSpec& spec);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_OPS_FROM_PLAN_INTERNAL_H_
