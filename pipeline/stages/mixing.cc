#include "pipeline/stages/mixing.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"

// Rows are mixed within groups that no rank and no lane tears, and a group's draws go by the batch
// and its place there: so nothing depends on the world. The epoch takes no part in them, because
// behind a cut of an endless input ranks need not agree on it (S-CUT-10); the batch's index tells
// epochs apart.

namespace millrace::pipeline {
namespace {

class Mixing final : public BatchOp {
 public:
  explicit Mixing(augment::BatchMixingOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& batch_schema) override {
    MILLRACE_RETURN_IF_ERROR(augment::CheckMixedFields(options_, batch_schema));
    image_ = batch_schema.Find(options_.field)->shape;
    classes_ = batch_schema.Find(options_.label)->shape[0];
    return batch_schema;
  }

  absl::Status Apply(BatchView& batch) const override {
    const TensorView images = batch.Find(options_.field);
    const TensorView labels = batch.Find(options_.label);
    const size_t image_bytes = static_cast<size_t>(image_.num_elements()) * SizeOf(images.dtype);
    const size_t label_bytes = static_cast<size_t>(classes_) * sizeof(float);
    std::vector<std::byte> spare(std::max(image_bytes, label_bytes));
    const auto group = static_cast<int64_t>(options_.group);
    for (int64_t first = 0; first < batch.num_rows(); first += group) {
      const int64_t last = std::min(first + group, batch.num_rows());
      RandomStream random({.seed = batch.seed,
                           .op = batch.stage_key,
                           .record = batch.index,
                           .sub_index = static_cast<uint64_t>(batch.first_global_row + first)});
      const auto mixture = augment::DrawMixture(options_, image_, random);
      if (!mixture) continue;
      augment::MixImages(options_, *mixture, RowsOf(batch, images, image_bytes, first, last),
                         images.dtype, image_, spare.data());
      augment::MixLabels(*mixture, RowsOf(batch, labels, label_bytes, first, last), classes_,
                         spare.data());
    }
    return absl::OkStatus();
  }

  uint64_t group_rows() const override { return options_.group; }

 private:
  // Where the rows in [first, last) that hold samples lie.
  static std::vector<std::byte*> RowsOf(const BatchView& batch, const TensorView& tensor,
                                        size_t row_bytes, int64_t first, int64_t last) {
    std::vector<std::byte*> rows;
    for (int64_t row = first; row < last; ++row) {
      if (batch.valid[static_cast<size_t>(row)] == 0) continue;
      rows.push_back(static_cast<std::byte*>(tensor.data) + static_cast<size_t>(row) * row_bytes);
    }
    return rows;
  }

  const augment::BatchMixingOptions options_;
  Shape image_;          // set by Resolve
  int64_t classes_ = 0;  // too
};

template <typename Message>
augment::BatchMixingOptions OptionsOf(augment::BatchMixingKind kind, const Message& message) {
  augment::BatchMixingOptions options;
  options.kind = kind;
  options.field = message.field();
  options.label = message.label();
  options.probability = message.probability();
  options.group = message.group();
  return options;
}

template <typename Message>
void FillCommon(Message* message) {
  if (message->field().empty()) message->set_field("image");
  if (message->label().empty()) message->set_label("label");
  if (!message->has_probability()) message->set_probability(1);
  if (message->group() == 0) message->set_group(2);
}

class MixingChecker : public OptionsChecker {
 public:
  using OptionsChecker::OptionsChecker;

  template <typename Message>
  absl::Status Common(const Message& message) const {
    constexpr uint64_t kMaxGroup = uint64_t{1} << 31;
    constexpr uint64_t kMaxClasses = 1 << 24;
    if (message.field() == message.label()) return Error("label", " is the field of the images");
    MILLRACE_RETURN_IF_ERROR(InRange("group", message.group(), 2, kMaxGroup));
    MILLRACE_RETURN_IF_ERROR(InRange("num_classes", message.num_classes(), 0, kMaxClasses));
    return IsProbability("probability", message.probability());
  }

  absl::Status IsAlpha(std::string_view field, float alpha) const {
    if (alpha >= 0.001f && alpha <= 1000) return absl::OkStatus();
    return Error(field, absl::StrCat(" is ", alpha, " but must be in [0.001, 1000]"));
  }

  absl::Status IsProbability(std::string_view field, float probability) const {
    if (probability >= 0 && probability <= 1) return absl::OkStatus();
    return Error(field, absl::StrCat(" is ", probability, " but must be in [0, 1]"));
  }
};

// Rows of each lane of every batch that the stage makes.
std::vector<uint64_t> BatchSizes(const proto::Stage& stage) {
  if (stage.has_batch()) return {stage.batch().size()};
  if (stage.has_padded_batch()) return {stage.padded_batch().size()};
  if (stage.has_ragged_batch()) return {stage.ragged_batch().size()};
  const auto& sizes = stage.bucket_by_length().batch_size();
  return {sizes.begin(), sizes.end()};
}

// The largest number up to `group` that divides `rows`; below 2 there is none that helps.
uint64_t NearestDivisor(uint64_t rows, uint64_t group) {
  constexpr uint64_t kMostTried = 1 << 20;
  uint64_t divisor = std::min({group, rows, kMostTried});
  while (divisor > 1 && rows % divisor != 0) --divisor;
  return divisor;
}

absl::Status CheckGroup(const PlanMessage& plan, int stage, int batch) {
  const proto::Stage& mixing = plan.pipeline.stage(stage);
  const uint64_t group = MixingOptionsOf(mixing).group;
  const uint64_t lanes = plan.pipeline.lanes();
  for (const uint64_t size : BatchSizes(plan.pipeline.stage(batch))) {
    const uint64_t rows = size / lanes;
    if (rows % group == 0) continue;
    std::string text = absl::StrCat("group is ", group, ", which does not divide the ", rows,
                                    lanes == 1 ? " rows" : " rows of a lane", " of the batch at ",
                                    plan.Where(batch));
    const uint64_t divisor = NearestDivisor(rows, group);
    absl::StrAppend(&text, divisor < 2 ? "; choose an even number of rows"
                                       : absl::StrCat("; ", divisor, " does"));
    return ErrorAt(plan.Where(stage, "group"), text);
  }
  return absl::OkStatus();
}

}  // namespace

augment::BatchMixingOptions MixingOptionsOf(const proto::Stage& stage) {
  using augment::BatchMixingKind;
  if (stage.has_mixup()) {
    auto options = OptionsOf(BatchMixingKind::kMixup, stage.mixup());
    options.mixup_alpha = stage.mixup().alpha();
    return options;
  }
  if (stage.has_cutmix()) {
    auto options = OptionsOf(BatchMixingKind::kCutmix, stage.cutmix());
    options.cutmix_alpha = stage.cutmix().alpha();
    options.channels_first = stage.cutmix().channels_first();
    return options;
  }
  const proto::MixupOrCutmix& either = stage.mixup_or_cutmix();
  auto options = OptionsOf(BatchMixingKind::kEither, either);
  options.mixup_alpha = either.mixup_alpha();
  options.cutmix_alpha = either.cutmix_alpha();
  options.switch_probability = either.switch_probability();
  options.channels_first = either.channels_first();
  return options;
}

uint32_t NumClassesOf(const proto::Stage& stage) {
  if (stage.has_mixup()) return stage.mixup().num_classes();
  if (stage.has_cutmix()) return stage.cutmix().num_classes();
  return stage.mixup_or_cutmix().num_classes();
}

std::unique_ptr<BatchOp> MakeMixing(augment::BatchMixingOptions options) {
  return std::make_unique<Mixing>(std::move(options));
}

void FillMixing(proto::Stage* stage) {
  if (stage->has_mixup()) {
    FillCommon(stage->mutable_mixup());
    if (!stage->mixup().has_alpha()) stage->mutable_mixup()->set_alpha(1);
  } else if (stage->has_cutmix()) {
    FillCommon(stage->mutable_cutmix());
    if (!stage->cutmix().has_alpha()) stage->mutable_cutmix()->set_alpha(1);
  } else {
    proto::MixupOrCutmix* const either = stage->mutable_mixup_or_cutmix();
    FillCommon(either);
    if (!either->has_mixup_alpha()) either->set_mixup_alpha(1);
    if (!either->has_cutmix_alpha()) either->set_cutmix_alpha(1);
    if (!either->has_switch_probability()) either->set_switch_probability(0.5f);
  }
}

absl::Status CheckMixingOptions(const PipelineAt& at, int i) {
  const proto::Stage& stage = at.pipeline->stage(i);
  const MixingChecker check(at, i);
  if (stage.has_mixup()) {
    MILLRACE_RETURN_IF_ERROR(check.Common(stage.mixup()));
    return check.IsAlpha("alpha", stage.mixup().alpha());
  }
  if (stage.has_cutmix()) {
    MILLRACE_RETURN_IF_ERROR(check.Common(stage.cutmix()));
    return check.IsAlpha("alpha", stage.cutmix().alpha());
  }
  const proto::MixupOrCutmix& either = stage.mixup_or_cutmix();
  MILLRACE_RETURN_IF_ERROR(check.Common(either));
  MILLRACE_RETURN_IF_ERROR(check.IsAlpha("mixup_alpha", either.mixup_alpha()));
  MILLRACE_RETURN_IF_ERROR(check.IsAlpha("cutmix_alpha", either.cutmix_alpha()));
  return check.IsProbability("switch_probability", either.switch_probability());
}

absl::Status CheckMixing(const PlanMessage& plan) {
  int batch = -1;
  for (int i = 0; i < plan.pipeline.stage_size(); ++i) {
    const proto::Stage& stage = plan.pipeline.stage(i);
    if (KindOf(stage) == StageKind::kBatch) batch = i;
    if (!MixesRows(stage)) continue;
    MILLRACE_RETURN_IF_ERROR(CheckGroup(plan, i, batch));
  }
  return absl::OkStatus();
}

}  // namespace millrace::pipeline
