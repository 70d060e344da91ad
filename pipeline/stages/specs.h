#ifndef MILLRACE_PIPELINE_STAGES_SPECS_H_
#define MILLRACE_PIPELINE_STAGES_SPECS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "augment/aug_mix.h"
#include "augment/auto_augment.h"
#include "augment/color_ops.h"
#include "augment/decode_crop.h"
#include "augment/distort_ops.h"
#include "augment/field_ops.h"
#include "augment/fused_ops.h"
#include "augment/geometry_ops.h"
#include "augment/image_ops.h"
#include "augment/targets.h"
#include "augment/token_ops.h"
#include "base/op.h"
#include "pipeline/predicate.h"
#include "readers/decode_raw.h"
#include "readers/parse_example.h"
#include "readers/parse_fields.h"
#include "readers/parse_sequence_example.h"

// The stages between source and batch that look at samples (maps and cuts), as plain options: what
// the optimizer's rules rewrite. Ops are made from them afterwards.

namespace millrace::pipeline {

struct PlanMessage;
namespace proto {
class ParseCsv;
}

// decode_image and a crop in one (rule decode_region).
struct DecodeRegionOptions {
  augment::DecodeImageOptions decode;
  augment::CropOptions crop;
  std::string decode_stage;
  std::string decode_where;  // FILE:LINE:COLUMN of it
  // The crop with its targets; nullopt: the image has none.
  std::optional<augment::TargetsOptions> targets = std::nullopt;
};

// decode_image in front of a crop where that rule is off: its verdict is the rule's.
struct DecodeToCropOptions {
  augment::DecodeImageOptions decode;
  augment::CropOptions crop;
  std::string crop_stage;
};

struct IdentityOptions {};

// An op of the host program.
struct CustomOptions {
  std::string stage;  // identity of its random draws
  std::string op;     // the name, as registered
  uint32_t version = 0;
  std::string options;
};

// A cut, and no op in pass 2; or, materialized, an op that checks what was found when the outcome
// was kept.
struct FilterOptions {
  std::string where;  // FILE:LINE:COLUMN of the predicate
  std::string text;
  std::optional<Predicate> predicate;  // parsed by the optimizer, before any rule
  bool materialize = false;            // true if its outcome is kept with the index
};

// A cut; in pass 2 the op that takes one element.
struct UnbatchOptions {
  std::vector<std::string> fields;  // empty: all; named by the optimizer before the op is made
};

// Windows over samples, by the numbers of WindowPlan.
struct WindowOptions {
  uint64_t size = 0;
};

using OpOptions = std::variant<
    readers::ParseExampleOptions, readers::ParseSequenceExampleOptions, readers::ParseFieldsOptions,
    readers::DecodeRawOptions, augment::DecodeImageOptions, augment::TargetsOptions,
    augment::RandomResizedCropOptions, DecodeRegionOptions, DecodeToCropOptions,
    augment::FusedImageOptions, augment::PeekImageShapeOptions, augment::CenterCropOptions,
    augment::RandomCropOptions, augment::PadOptions, augment::TransposeOptions,
    augment::PadChannelsOptions, augment::ColorOptions, augment::ColorJitterOptions,
    augment::AffineOptions, augment::RandomErasingOptions, augment::AugMixOptions,
    augment::AutoAugmentOptions, augment::LabelSmoothingOptions, augment::CutoutOptions,
    augment::ResizeOptions, augment::FlipOptions, augment::NormalizeOptions, augment::CastOptions,
    augment::OneHotOptions, augment::VocabularyOptions, augment::PadTokensOptions,
    augment::ScaleOptions, augment::LogOptions, augment::BucketizeOptions, augment::HashOptions,
    augment::ClipOptions, augment::FillMissingOptions, augment::StackOptions, IdentityOptions,
    CustomOptions, FilterOptions, UnbatchOptions, WindowOptions>;

// Its special members are compiled once: to copy so many alternatives takes a compiler seconds.
struct OpSpec {
  OpSpec(std::string stage_in, std::string where_in, OpOptions options_in);
  OpSpec(const OpSpec&);
  OpSpec(OpSpec&&) noexcept;
  OpSpec& operator=(const OpSpec&);
  OpSpec& operator=(OpSpec&&) noexcept;
  ~OpSpec();

  std::string stage;  // identity of the random draws
  std::string where;  // FILE:LINE:COLUMN of the stage
  OpOptions options;

  bool is_filter() const { return std::holds_alternative<FilterOptions>(options); }
  bool is_materialized() const {
    const auto* filter = std::get_if<FilterOptions>(&options);
    return filter != nullptr && filter->materialize;
  }
};

// The features of an op that parses records, of which those that are not read may be taken out;
// null for any other op.
std::vector<readers::FeatureSpec>* MutableFeatures(OpOptions* options);

// Fields by name that an op reads, writes (all of them anew), and takes away.
struct OpFields {
  std::vector<std::string> reads;
  std::vector<std::string> writes;
  std::vector<std::string> removes;
  // True if they are not known: the op may read and write every field there is.
  bool any = false;
  // The fields of `writes` that it refuses to replace.
  std::vector<std::string> adds = {};
};
// REQUIRES: predicates are parsed.
OpFields FieldsOf(const OpOptions& options);

// "decode_image", ...
std::string OpName(const OpOptions& options);

// True if it draws random numbers.
bool DrawsAtRandom(const OpOptions& options);

// The columns of a row, in order, where no header says otherwise.
std::vector<std::string> ColumnsOf(const proto::ParseCsv& parse);

// The maps and cuts of the plan before its batch, in order.
std::vector<OpSpec> OpsFromPlan(const PlanMessage& plan);

// Makes the op of a spec that is neither a filter nor custom. Tests pass their own.
using OpFactory = std::function<absl::StatusOr<std::unique_ptr<Op>>(const OpSpec&)>;
// Makes an op of the program, by readers::Make... or augment::Make...
absl::StatusOr<std::unique_ptr<Op>> MakeBuiltinOp(const OpSpec& spec);

// Makes the op of a custom stage (OpTable::Make).
using CustomFactory = std::function<absl::StatusOr<std::unique_ptr<Op>>(const CustomOptions&)>;

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_SPECS_H_
