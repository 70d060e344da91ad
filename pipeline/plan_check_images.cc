#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/shape.h"
#include "base/status.h"
#include "pipeline/plan_check_internal.h"
#include "pipeline/plan_words_internal.h"

// The range of every option of the maps of images, but for decode_image and random_resized_crop.

namespace millrace::pipeline {
namespace {

constexpr uint64_t kMaxExtent = 1 << 16;  // of an image's side
constexpr uint64_t kMaxPad = 4096;
constexpr uint64_t kMaxChannels = 1 << 16;

class ImageChecker : public OptionsChecker {
 public:
  using OptionsChecker::OptionsChecker;

  absl::Status Resize(const proto::Resize& resize) const;
  absl::Status Flip(const proto::Flip& flip) const;
  absl::Status Pad(const proto::Pad& pad) const;
  absl::Status Transpose(const proto::Transpose& transpose) const;
  absl::Status PadChannels(const proto::PadChannels& pad) const;

 private:
  template <typename Value, size_t kSize>
  absl::Status IsOneOf(std::string_view field, const Words<Value, kSize>& words,
                       const std::string& word) const {
    if (Find(words, word)) return absl::OkStatus();
    return Error(field, absl::StrCat(" is \"", word, "\" but must be ", ListOf(words)));
  }

  absl::Status IsProbability(float probability) const {
    if (probability >= 0 && probability <= 1) return absl::OkStatus();
    return Error("probability", absl::StrCat(" is ", probability, " but must be in [0, 1]"));
  }

  absl::Status IsFinite(std::string_view field, float value) const {
    return std::isfinite(value) ? absl::OkStatus() : Error(field, " must be finite");
  }
};

absl::Status ImageChecker::Resize(const proto::Resize& resize) const {
  if (resize.shorter() == 0) {
    MILLRACE_RETURN_IF_ERROR(Size(resize.field(), resize.height(), resize.width()));
  } else if (resize.height() != 0 || resize.width() != 0) {
    return Error("shorter", " stands instead of height and width");
  } else {
    MILLRACE_RETURN_IF_ERROR(InRange("shorter", resize.shorter(), 1, kMaxExtent));
  }
  MILLRACE_RETURN_IF_ERROR(IsOneOf("method", kResizeMethods, resize.method()));
  if (resize.antialias() && resize.method() != "bilinear" && resize.method() != "bicubic") {
    return Error("antialias", " is of methods \"bilinear\" and \"bicubic\" only");
  }
  const proto::DataType dtype = resize.dtype();
  if (dtype == proto::DATA_TYPE_UNSPECIFIED || dtype == proto::UINT8 || dtype == proto::FLOAT32) {
    return absl::OkStatus();
  }
  return Error("dtype", " must be UINT8 or FLOAT32");
}

absl::Status ImageChecker::Flip(const proto::Flip& flip) const {
  return IsProbability(flip.probability());
}

absl::Status ImageChecker::Pad(const proto::Pad& pad) const {
  MILLRACE_RETURN_IF_ERROR(InRange("top", pad.top(), 0, kMaxPad));
  MILLRACE_RETURN_IF_ERROR(InRange("bottom", pad.bottom(), 0, kMaxPad));
  MILLRACE_RETURN_IF_ERROR(InRange("left", pad.left(), 0, kMaxPad));
  MILLRACE_RETURN_IF_ERROR(InRange("right", pad.right(), 0, kMaxPad));
  MILLRACE_RETURN_IF_ERROR(IsOneOf("mode", kPadModes, pad.mode()));
  return IsFinite("value", pad.value());
}

absl::Status ImageChecker::Transpose(const proto::Transpose& transpose) const {
  const int size = transpose.perm_size();
  if (size >= Shape::kMaxRank) {
    return Error("perm", absl::StrCat(" has more than ", Shape::kMaxRank - 1, " numbers"));
  }
  for (int i = 0; i < size; ++i) {
    if (std::ranges::count(transpose.perm(), static_cast<uint32_t>(i)) == 1) continue;
    return Error("perm", absl::StrCat(" must have every number from 0 to ", size - 1, " once"));
  }
  return absl::OkStatus();
}

absl::Status ImageChecker::PadChannels(const proto::PadChannels& pad) const {
  MILLRACE_RETURN_IF_ERROR(InRange("channels", pad.channels(), 1, kMaxChannels));
  return IsFinite("value", pad.value());
}

}  // namespace

absl::Status CheckImageOptions(const PipelineAt& at, int i) {
  const proto::Stage& stage = at.pipeline->stage(i);
  const ImageChecker check(at, i);
  const auto size = [&check](const auto& op) {
    return check.Size(op.field(), op.height(), op.width());
  };
  switch (stage.op_case()) {
    case proto::Stage::kResize:
      return check.Resize(stage.resize());
    case proto::Stage::kCenterCrop:
      return size(stage.center_crop());
    case proto::Stage::kRandomCrop:
      return size(stage.random_crop());
    case proto::Stage::kPad:
      return check.Pad(stage.pad());
    case proto::Stage::kTranspose:
      return check.Transpose(stage.transpose());
    case proto::Stage::kPadChannels:
      return check.PadChannels(stage.pad_channels());
    case proto::Stage::kFlip:
      return check.Flip(stage.flip());
    default:
      return absl::OkStatus();
  }
}

}  // namespace millrace::pipeline
