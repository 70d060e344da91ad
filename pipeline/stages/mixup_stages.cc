#include "pipeline/stages/row.h"

// Stages that mix rows of whole batches: mixup, cutmix, mixup_or_cutmix (docs/semantics.md, S-MIX).

namespace millrace::pipeline {
namespace {

using augment::BatchMixingKind;
using proto::Stage;

template <typename Message>
void FillCommon(Message* message) {
  FillImageField(message);
  Default(message->mutable_label(), "label");
  if (!message->has_probability()) message->set_probability(1);
  if (message->group() == 0) message->set_group(2);
}

// The defaults of mixup and cutmix.
template <typename Message>
void FillOne(Message* message) {
  FillCommon(message);
  if (!message->has_alpha()) message->set_alpha(1);
}

void FillEither(proto::MixupOrCutmix* either) {
  FillCommon(either);
  if (!either->has_mixup_alpha()) either->set_mixup_alpha(1);
  if (!either->has_cutmix_alpha()) either->set_cutmix_alpha(1);
  if (!either->has_switch_probability()) either->set_switch_probability(0.5f);
}

template <typename Message>
absl::Status CheckCommon(const OptionsChecker& check, const Message& message) {
  constexpr uint64_t kMaxGroup = uint64_t{1} << 31;
  constexpr uint64_t kMaxClasses = 1 << 24;
  if (message.field() == message.label()) {
    return check.Error("label", " is the field of the images");
  }
  MILLRACE_RETURN_IF_ERROR(check.InRange("group", message.group(), 2, kMaxGroup));
  MILLRACE_RETURN_IF_ERROR(check.InRange("num_classes", message.num_classes(), 0, kMaxClasses));
  return check.IsProbability(message.probability());
}

template <typename Message>
absl::Status CheckOne(const OptionsChecker& check, const Message& message) {
  MILLRACE_RETURN_IF_ERROR(CheckCommon(check, message));
  return check.IsAlpha("alpha", message.alpha());
}

absl::Status CheckEither(const OptionsChecker& check, const proto::MixupOrCutmix& either) {
  MILLRACE_RETURN_IF_ERROR(CheckCommon(check, either));
  MILLRACE_RETURN_IF_ERROR(check.IsAlpha("mixup_alpha", either.mixup_alpha()));
  MILLRACE_RETURN_IF_ERROR(check.IsAlpha("cutmix_alpha", either.cutmix_alpha()));
  return check.IsFraction("switch_probability", either.switch_probability());
}

template <typename Message>
MixingOfStage ToCommon(BatchMixingKind kind, const Message& message) {
  MixingOfStage mixing;
  mixing.options.kind = kind;
  mixing.options.field = message.field();
  mixing.options.label = message.label();
  mixing.options.probability = message.probability();
  mixing.options.group = message.group();
  mixing.num_classes = message.num_classes();
  return mixing;
}

MixingOfStage MixingOfMixup(const Stage& stage) {
  MixingOfStage mixing = ToCommon(BatchMixingKind::kMixup, stage.mixup());
  mixing.options.mixup_alpha = stage.mixup().alpha();
  return mixing;
}

MixingOfStage MixingOfCutmix(const Stage& stage) {
  MixingOfStage mixing = ToCommon(BatchMixingKind::kCutmix, stage.cutmix());
  mixing.options.cutmix_alpha = stage.cutmix().alpha();
  mixing.options.channels_first = stage.cutmix().channels_first();
  return mixing;
}

MixingOfStage MixingOfEither(const Stage& stage) {
  const proto::MixupOrCutmix& either = stage.mixup_or_cutmix();
  MixingOfStage mixing = ToCommon(BatchMixingKind::kEither, either);
  mixing.options.mixup_alpha = either.mixup_alpha();
  mixing.options.cutmix_alpha = either.cutmix_alpha();
  mixing.options.switch_probability = either.switch_probability();
  mixing.options.channels_first = either.channels_first();
  return mixing;
}

constexpr Option kImages = {"field",
                            "uint8, float16, bfloat16 or float32 of one shape for all samples"};
constexpr Option kLabel = {"label", "float32 [classes], as `one_hot` makes it, smoothed or not"};
constexpr Option kGroupProbability = {"probability", "that a group is mixed"};
constexpr Option kGroup = {"group",
                           "rows that are mixed with each other, at least 2; divides the rows of a "
                           "lane"};
constexpr Option kNumClasses = {"num_classes",
                                "the label is an integer, which becomes one_hot before the batch",
                                "0: it is float32"};
constexpr Option kChannelsFirst = {"channels_first", "images are [channels, height, width]"};

constexpr StageRow kMixupRows[] = {
    {.op_case = Stage::kMixup,
     .name = "mixup",
     .doc = "Behind the batch: x * lambda + other * (1 - lambda), images and labels.",
     .options = {kImages,
                 kLabel,
                 {"alpha", "lambda ~ Beta(alpha, alpha)"},
                 kGroupProbability,
                 kGroup,
                 kNumClasses},
     .fill = Fill<&Stage::mutable_mixup, FillOne<proto::Mixup>>,
     .check = Check<&Stage::mixup, CheckOne<proto::Mixup>>,
     .mixing = MixingOfMixup},
    {.op_case = Stage::kCutmix,
     .name = "cutmix",
     .doc = "Behind the batch: a box of the other image's pixels, and labels in the same shares.",
     .options = {kImages,
                 kLabel,
                 {"alpha", "lambda ~ Beta(alpha, alpha)"},
                 kGroupProbability,
                 kGroup,
                 kNumClasses,
                 kChannelsFirst},
     .fill = Fill<&Stage::mutable_cutmix, FillOne<proto::Cutmix>>,
     .check = Check<&Stage::cutmix, CheckOne<proto::Cutmix>>,
     .mixing = MixingOfCutmix},
    {.op_case = Stage::kMixupOrCutmix,
     .name = "mixup_or_cutmix",
     .doc = "Behind the batch: one of the two, drawn for each group.",
     .options = {kImages,
                 kLabel,
                 {"mixup_alpha", ""},
                 {"cutmix_alpha", ""},
                 {"switch_probability", "that a group that is mixed is cut"},
                 kGroupProbability,
                 kGroup,
                 kNumClasses,
                 kChannelsFirst},
     .fill = Fill<&Stage::mutable_mixup_or_cutmix, FillEither>,
     .check = Check<&Stage::mixup_or_cutmix, CheckEither>,
     .mixing = MixingOfEither},
};

}  // namespace

constinit const StageFamily kMixupStages = {"mixup", "Mixing rows", kMixupRows};

}  // namespace millrace::pipeline
