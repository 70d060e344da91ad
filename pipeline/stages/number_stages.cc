#include <cmath>

#include "pipeline/stages/convert.h"
#include "pipeline/stages/fields.h"
#include "pipeline/stages/row.h"

// Maps of numbers, many fields by one stage.

namespace millrace::pipeline {
namespace {

using proto::Stage;

constexpr uint64_t kMaxBins = uint64_t{1} << 63;

void FillScale(proto::Scale* scale) {
  if (!scale->min().empty() || !scale->max().empty()) return;
  if (scale->factor().empty()) scale->add_factor(1);
  if (scale->offset().empty()) scale->add_offset(0);
}

absl::Status CheckMinMax(const OptionsChecker& check, const proto::Scale& scale) {
  const int count = scale.field_size();
  MILLRACE_RETURN_IF_ERROR(check.IsPerField("min", scale.min(), count));
  MILLRACE_RETURN_IF_ERROR(check.IsPerField("max", scale.max(), count));
  for (int i = 0; i < count; ++i) {
    const int at = scale.max_size() == 1 ? 0 : i;
    const double min = scale.min(scale.min_size() == 1 ? 0 : i);
    const double max = scale.max(at);
    if (min < max && std::isfinite(max - min)) continue;
    return check.Error("max", absl::StrCat(" is ", max, " but must be finite and above min, ", min),
                       at);
  }
  return absl::OkStatus();
}

absl::Status CheckScale(const OptionsChecker& check, const proto::Scale& scale) {
  MILLRACE_RETURN_IF_ERROR(check.AreFields(scale.field()));
  if (!scale.min().empty() || !scale.max().empty()) {
    if (!scale.factor().empty()) return check.Error("factor", " has no meaning with min and max");
    if (!scale.offset().empty()) return check.Error("offset", " has no meaning with min and max");
    return CheckMinMax(check, scale);
  }
  MILLRACE_RETURN_IF_ERROR(check.IsPerField("factor", scale.factor(), scale.field_size()));
  MILLRACE_RETURN_IF_ERROR(check.IsPerField("offset", scale.offset(), scale.field_size()));
  MILLRACE_RETURN_IF_ERROR(check.AreFinite("factor", scale.factor()));
  return check.AreFinite("offset", scale.offset());
}

OpOptions ToScale(const proto::Scale& scale) {
  return augment::ScaleOptions{ToVector(scale.field()), ToVector(scale.factor()),
                               ToVector(scale.offset()), ToVector(scale.min()),
                               ToVector(scale.max())};
}

void FillLog(proto::Log* log) {
  if (!log->has_min()) log->set_min(0);
  if (!log->has_offset()) log->set_offset(1);
}

absl::Status CheckLog(const OptionsChecker& check, const proto::Log& log) {
  MILLRACE_RETURN_IF_ERROR(check.AreFields(log.field()));
  MILLRACE_RETURN_IF_ERROR(check.IsFinite("min", log.min()));
  MILLRACE_RETURN_IF_ERROR(check.IsFinite("offset", log.offset()));
  const double least = log.min() + log.offset();
  if (least > 0) return absl::OkStatus();
  return check.Error("min", absl::StrCat(" + offset is ", least, " but must be > 0"));
}

OpOptions ToLog(const proto::Log& log) {
  return augment::LogOptions{ToVector(log.field()), log.min(), log.offset()};
}

absl::Status CheckBucketize(const OptionsChecker& check, const proto::Bucketize& bucketize) {
  MILLRACE_RETURN_IF_ERROR(check.AreFields(bucketize.field()));
  const auto& boundary = bucketize.boundary();
  if (boundary.empty()) return check.Error("boundary", ": none given");
  MILLRACE_RETURN_IF_ERROR(check.AreFinite("boundary", boundary));
  for (int i = 1; i < boundary.size(); ++i) {
    if (boundary[i - 1] < boundary[i]) continue;
    return check.Error(
        "boundary",
        absl::StrCat(" ", boundary[i], " is not above the one before it, ", boundary[i - 1]), i);
  }
  return absl::OkStatus();
}

OpOptions ToBucketize(const proto::Bucketize& bucketize) {
  return augment::BucketizeOptions{ToVector(bucketize.field()), ToVector(bucketize.boundary()),
                                   bucketize.right()};
}

void FillHash(proto::Hash* hash) {
  if (hash->salt().empty()) hash->add_salt(0);
}

absl::Status CheckHash(const OptionsChecker& check, const proto::Hash& hash) {
  MILLRACE_RETURN_IF_ERROR(check.AreFields(hash.field()));
  MILLRACE_RETURN_IF_ERROR(check.IsPerField("num_bins", hash.num_bins(), hash.field_size()));
  for (int i = 0; i < hash.num_bins_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(check.InRange("num_bins", hash.num_bins(i), 1, kMaxBins, i));
  }
  return check.IsPerField("salt", hash.salt(), hash.field_size());
}

OpOptions ToHash(const proto::Hash& hash) {
  return augment::HashOptions{ToVector(hash.field()), ToVector(hash.num_bins()),
                              ToVector(hash.salt())};
}

absl::Status CheckClip(const OptionsChecker& check, const proto::Clip& clip) {
  MILLRACE_RETURN_IF_ERROR(check.AreFields(clip.field()));
  if (!clip.has_min() && !clip.has_max()) return check.Error("min", ": none given, and no max");
  if (std::isnan(clip.min())) return check.Error("min", " must be a number");
  if (std::isnan(clip.max())) return check.Error("max", " must be a number");
  if (!clip.has_min() || !clip.has_max() || clip.min() <= clip.max()) return absl::OkStatus();
  return check.Error("max", absl::StrCat(" is ", clip.max(), " but min is ", clip.min()));
}

OpOptions ToClip(const proto::Clip& clip) {
  augment::ClipOptions options{ToVector(clip.field()), std::nullopt, std::nullopt};
  if (clip.has_min()) options.min = clip.min();
  if (clip.has_max()) options.max = clip.max();
  return options;
}

absl::Status CheckFillMissing(const OptionsChecker& check, const proto::FillMissing& fill) {
  MILLRACE_RETURN_IF_ERROR(check.AreFields(fill.field()));
  MILLRACE_RETURN_IF_ERROR(check.IsFinite("value", fill.value()));
  return check.IsFinite("missing", fill.missing());
}

OpOptions ToFillMissing(const proto::FillMissing& fill) {
  augment::FillMissingOptions options{ToVector(fill.field()), fill.value(), std::nullopt};
  if (fill.has_missing()) options.missing = fill.missing();
  return options;
}

absl::Status CheckStack(const OptionsChecker& check, const proto::Stack& stack) {
  MILLRACE_RETURN_IF_ERROR(check.AreFields(stack.field()));
  return check.HasName("output", stack.output());
}

OpOptions ToStack(const proto::Stack& stack) {
  return augment::StackOptions{ToVector(stack.field()), stack.output()};
}

OpFields FieldsOfStack(const augment::StackOptions& stack) {
  return Consumed(stack.fields, stack.output);
}

template <typename Options, auto kMake>
constexpr OpRow NumberOp() {
  return {.index = IndexOf<Options>(), .fields = InPlace<Options>, .make = MakeBy<Options, kMake>};
}

constexpr OpRow kScaleOp = NumberOp<augment::ScaleOptions, augment::MakeScale>();
constexpr OpRow kLogOp = NumberOp<augment::LogOptions, augment::MakeLog>();
constexpr OpRow kBucketizeOp = NumberOp<augment::BucketizeOptions, augment::MakeBucketize>();
constexpr OpRow kHashOp = NumberOp<augment::HashOptions, augment::MakeHash>();
constexpr OpRow kClipOp = NumberOp<augment::ClipOptions, augment::MakeClip>();
constexpr OpRow kFillMissingOp = NumberOp<augment::FillMissingOptions, augment::MakeFillMissing>();
constexpr OpRow kStackOp = {.index = IndexOf<augment::StackOptions>(),
                            .fields = FieldsBy<augment::StackOptions, FieldsOfStack>,
                            .make = MakeBy<augment::StackOptions, augment::MakeStack>};

constexpr StageRow kNumberRows[] = {
    {.op_case = Stage::kScale,
     .name = "scale",
     .doc = "x * factor + offset, or (x - min) / (max - min).",
     .options = {kRequiredFields,
                 {"factor", "one number, or one per field; so are the next three"},
                 {"offset", ""},
                 {"min", "with `max`, instead of `factor` and `offset`"},
                 {"max", ""}},
     .fill = Fill<&Stage::mutable_scale, FillScale>,
     .check = Check<&Stage::scale, CheckScale>,
     .read = Read<&Stage::scale, ToScale>,
     .op = &kScaleOp},
    {.op_case = Stage::kLog,
     .name = "log",
     .doc = "ln(max(x, min) + offset).",
     .options = {kRequiredFields, {"min", ""}, {"offset", ""}},
     .fill = Fill<&Stage::mutable_log, FillLog>,
     .check = Check<&Stage::log, CheckLog>,
     .read = Read<&Stage::log, ToLog>,
     .op = &kLogOp},
    {.op_case = Stage::kBucketize,
     .name = "bucketize",
     .doc = "The number of boundaries that lie below a value.",
     .options = {kRequiredFields,
                 {"boundary", "ascending", kRequired},
                 {"right", "a boundary that x equals is below it (TensorFlow, Keras, NumPy)",
                  "false (torch)"}},
     .check = Check<&Stage::bucketize, CheckBucketize>,
     .read = Read<&Stage::bucketize, ToBucketize>,
     .op = &kBucketizeOp},
    {.op_case = Stage::kHash,
     .name = "hash",
     .doc = "Strings and integers become one of `num_bins` numbers.",
     .options = {kRequiredFields,
                 {"num_bins", "one number, or one per field", kRequired},
                 {"salt", "one number, or one per field; other salts, other bins"}},
     .fill = Fill<&Stage::mutable_hash, FillHash>,
     .check = Check<&Stage::hash, CheckHash>,
     .read = Read<&Stage::hash, ToHash>,
     .op = &kHashOp},
    {.op_case = Stage::kClip,
     .name = "clip",
     .doc = "Values below min become min, values above max become max.",
     .options = {kRequiredFields, {"min", "one of the two at least"}, {"max", ""}},
     .check = Check<&Stage::clip, CheckClip>,
     .read = Read<&Stage::clip, ToClip>,
     .op = &kClipOp},
    {.op_case = Stage::kFillMissing,
     .name = "fill_missing",
     .doc = "A number in the place of NaN, and of another number that stands for a missing one.",
     .options = {kRequiredFields, {"value", ""}, {"missing", "the other number"}},
     .check = Check<&Stage::fill_missing, CheckFillMissing>,
     .read = Read<&Stage::fill_missing, ToFillMissing>,
     .op = &kFillMissingOp},
    {.op_case = Stage::kStack,
     .name = "stack",
     .doc = "Fields of one dtype and shape [...] become one field, [fields, ...].",
     .options = {{"field", "the fields, which are gone behind it", kRequired},
                 {"output", "", kRequired}},
     .check = Check<&Stage::stack, CheckStack>,
     .read = Read<&Stage::stack, ToStack>,
     .op = &kStackOp},
};

}  // namespace

constinit const StageFamily kNumberStages = {"numbers", "Numbers", kNumberRows};

}  // namespace millrace::pipeline
