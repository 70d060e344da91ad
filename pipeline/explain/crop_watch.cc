#include "pipeline/crop_watch.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "augment/drawn_values.h"
#include "base/mutex.h"
#include "base/op.h"
#include "base/status.h"
#include "pipeline/explain/stage_lookup.h"
#include "pipeline/stages/table.h"
#include "readers/image_header.h"

namespace millrace::pipeline {
namespace {

constexpr char kNoteOp[] = "millrace/note_extents";
constexpr size_t kMaxNotes = size_t{1} << 20;

struct Extents {
  int64_t height = 0;
  int64_t width = 0;
};

}  // namespace

// Thread-safe.
class ImageExtents {
 public:
  // Notes the extents of the image that decode_image, stage `stage`, decodes. Beyond 2^20 images
  // nothing is noted.
  void Note(size_t stage, const SampleId& id, Extents extents) {
    const MutexLock lock(mu_);
    if (notes_.size() < kMaxNotes) notes_[KeyOf(id)][stage] = extents;
  }

  std::optional<Extents> Find(size_t stage, const SampleId& id) const {
    const MutexLock lock(mu_);
    const auto sample = notes_.find(KeyOf(id));
    if (sample == notes_.end()) return std::nullopt;
    const auto note = sample->second.find(stage);
    return note == sample->second.end() ? std::nullopt : std::optional(note->second);
  }

  void Forget(std::span<const SampleId> ids) {
    const MutexLock lock(mu_);
    for (const SampleId& id : ids) notes_.erase(KeyOf(id));
  }

 private:
  using Key = std::tuple<uint64_t, uint64_t, uint64_t>;
  static Key KeyOf(const SampleId& id) { return {id.epoch, id.record, id.sub_index}; }

  mutable Mutex mu_;
  std::map<Key, std::map<size_t, Extents>> notes_ GUARDED_BY(mu_);
};

namespace {

// Reads headers of a bytes field; a damaged one is left to the decoder.
class NoteExtents final : public Op {
 public:
  NoteExtents(std::string field, size_t stage, std::shared_ptr<ImageExtents> extents)
      : field_(std::move(field)), stage_(stage), extents_(std::move(extents)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_RETURN_IF_ERROR(input.CheckHas(field_));
    if (input.Find(field_)->dtype != DType::kBytes) {
      return absl::InvalidArgumentError(absl::StrCat(field_, " is no bytes field"));
    }
    return input;
  }

  void Apply(Run& run) const override {
    const Column& column = run.Get(field_);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const auto header = readers::ReadImageHeader(column.bytes(row));
      if (header.ok()) extents_->Note(stage_, run.id(row), {header->height, header->width});
    }
  }

 private:
  const std::string field_;
  const size_t stage_;
  const std::shared_ptr<ImageExtents> extents_;
};

std::shared_ptr<const OpTable> NotingOps(std::shared_ptr<ImageExtents> extents) {
  auto table = std::make_shared<OpTable>();
  // "3 image/encoded": the stage's number and its field.
  const auto make = [extents](const OpArgs& args) -> absl::StatusOr<std::unique_ptr<Op>> {
    const size_t space = args.options.find(' ');
    uint64_t stage = 0;
    if (space == std::string_view::npos ||
        !absl::SimpleAtoi(ToAbsl(args.options.substr(0, space)), &stage)) {
      return absl::InvalidArgumentError(absl::StrCat(kNoteOp, ": expected a number and a field"));
    }
    return std::make_unique<NoteExtents>(std::string(args.options.substr(space + 1)), stage,
                                         extents);
  };
  table->Register(kNoteOp, 1, make).IgnoreError();  // the table is empty: the name is free
  return table;
}

// Samples are dropped, or made, by looking at them: a note in front of that would be looked at too,
// and what run says of a stream without samples would not be said. Or they are windows, and a note
// in front would tell of their elements.
bool LooksAtSamples(const proto::Pipeline& pipeline) {
  return std::ranges::any_of(pipeline.stage(), [](const proto::Stage& stage) {
    return stage.has_filter() || stage.has_unbatch() || stage.has_bucket_by_length() ||
           stage.has_window();
  });
}

proto::Pipeline WithNotes(const proto::Pipeline& pipeline) {
  if (LooksAtSamples(pipeline)) return pipeline;
  proto::Pipeline watched = pipeline;
  watched.clear_stage();
  for (int i = 0; i < pipeline.stage_size(); ++i) {
    const proto::Stage& stage = pipeline.stage(i);
    if (stage.has_decode_image()) {
      proto::Stage& note = *watched.add_stage();
      note.set_name(absl::StrCat("millrace_note_extents_", i));
      note.mutable_custom()->set_op(kNoteOp);
      note.mutable_custom()->set_options(absl::StrCat(i, " ", stage.decode_image().field()));
    }
    *watched.add_stage() = stage;
  }
  return watched;
}

std::optional<Extents> Given(const google::protobuf::RepeatedField<int64_t>& shape) {
  if (shape.size() != 3 || shape[0] <= 0) return std::nullopt;
  return Extents{shape[0], shape[1]};
}

// The extents of an image behind a stage that works on it, when it had `before` in front.
template <typename Options>
std::optional<Extents> SizeOf(const Options& options) {
  if (options.height() == 0 || options.width() == 0) return std::nullopt;
  return Extents{options.height(), options.width()};
}

std::optional<Extents> Behind(const proto::Stage& stage, std::optional<Extents> before) {
  if (stage.has_random_resized_crop()) return SizeOf(stage.random_resized_crop());
  if (stage.has_random_crop()) return SizeOf(stage.random_crop());
  if (stage.has_center_crop()) return SizeOf(stage.center_crop());
  if (stage.has_resize()) return SizeOf(stage.resize());
  if (stage.has_pad() && before) {
    const proto::Pad& pad = stage.pad();
    return Extents{before->height + pad.top() + pad.bottom(),
                   before->width + pad.left() + pad.right()};
  }
  const bool keeps = RowOf(stage).keeps_values || stage.has_normalize() || stage.has_cast() ||
                     stage.has_pad_channels();
  return keeps ? before : std::nullopt;
}

// The extents of the sample's `field` in front of stage `end`.
std::optional<Extents> InFrontOf(const proto::Pipeline& pipeline, int end, const std::string& field,
                                 const ImageExtents& noted, const SampleId& id) {
  std::optional<Extents> extents;
  for (int i = 0; i < end; ++i) {
    const proto::Stage& stage = pipeline.stage(i);
    if (stage.has_custom()) {
      extents.reset();
    } else if (stage.has_decode_image()) {
      if (stage.decode_image().output() != field) continue;
      extents = noted.Find(static_cast<size_t>(i), id);
      if (stage.decode_image().apply_exif_orientation()) extents.reset();
    } else if (stage.has_decode_raw()) {
      if (stage.decode_raw().output() == field) extents = Given(stage.decode_raw().shape());
    } else if (WorksOn(stage, field)) {
      extents = Behind(stage, extents);
    }
  }
  return extents;
}

}  // namespace

CropWatch CropWatch::Make(const Plan& plan) {
  auto watched = Plan::FromText(TextOf(WithNotes(plan.message().pipeline)), "watched plan");
  auto extents = std::make_shared<ImageExtents>();
  auto ops = NotingOps(extents);
  return {plan, watched.ok() ? *std::move(watched) : plan, std::move(extents), std::move(ops)};
}

std::optional<augment::CropWindow> CropWatch::WindowOf(size_t stage, const SampleId& id) const {
  const proto::Pipeline& pipeline = plan_.message().pipeline;
  const int index = static_cast<int>(stage);
  const proto::Stage& crop = pipeline.stage(index);
  if (!crop.has_random_resized_crop() && !crop.has_random_crop()) return std::nullopt;
  if (DrawsForElements(pipeline, index)) return std::nullopt;
  const std::string field = StringsOf(OptionsOf(crop), "field").front();
  const auto extents = InFrontOf(pipeline, index, field, *extents_, id);
  if (!extents || extents->height <= 0 || extents->width <= 0) return std::nullopt;
  const RandomStream random = DrawsOf(pipeline, crop, id);
  if (crop.has_random_crop()) {
    const augment::RandomCropOptions options{.height = crop.random_crop().height(),
                                             .width = crop.random_crop().width()};
    const bool fits = options.height <= extents->height && options.width <= extents->width;
    if (!fits) return std::nullopt;
    return augment::DrawnCrop(options, extents->height, extents->width, random);
  }
  const proto::RandomResizedCrop& given = crop.random_resized_crop();
  const augment::RandomResizedCropOptions options{
      .area = {given.area(0), given.area(1)},
      .aspect = {given.aspect(0), given.aspect(1)},
      .max_attempts = static_cast<int>(given.max_attempts())};
  return augment::DrawnCrop(options, extents->height, extents->width, random);
}

std::string CropWatch::DrawnText(size_t stage, const SampleId& id) const {
  const proto::Pipeline& pipeline = plan_.message().pipeline;
  const int index = static_cast<int>(stage);
  const proto::Stage& message = pipeline.stage(index);
  const std::vector<OpSpec> specs = OpsFromPlan(plan_.message());
  const auto spec = std::ranges::find(specs, message.name(), &OpSpec::stage);
  if (spec == specs.end() || DrawsForElements(pipeline, index)) return "";
  const auto extents = [&](const std::string& field) {
    return InFrontOf(pipeline, index, field, *extents_, id).value_or(Extents());
  };
  const RandomStream random = DrawsOf(pipeline, message, id);
  if (const auto* color = std::get_if<augment::ColorOptions>(&spec->options)) {
    return augment::DrawnText(*color, random);
  }
  if (const auto* jitter = std::get_if<augment::ColorJitterOptions>(&spec->options)) {
    return augment::DrawnText(*jitter, random);
  }
  if (const auto* affine = std::get_if<augment::AffineOptions>(&spec->options)) {
    const auto [height, width] = extents(affine->field);
    return augment::DrawnText(*affine, height, width, random);
  }
  if (const auto* policy = std::get_if<augment::AutoAugmentOptions>(&spec->options)) {
    const auto [height, width] = extents(policy->field);
    return augment::DrawnText(*policy, height, width, random);
  }
  return "";
}

void CropWatch::Forget(std::span<const SampleId> ids) const { extents_->Forget(ids); }

}  // namespace millrace::pipeline
