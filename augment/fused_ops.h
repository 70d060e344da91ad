#ifndef MILLRACE_AUGMENT_FUSED_OPS_H_
#define MILLRACE_AUGMENT_FUSED_OPS_H_

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "augment/geometry_ops.h"
#include "augment/image_ops.h"
#include "base/op.h"

// Ops on one image field that follow each other, run as one: each row of pixels goes through all of
// them before the next one does, and the last step stores it where the image belongs.

namespace millrace::augment {

// What may stand behind the first op: done row by row of pixels. A transpose [2, 0, 1] makes
// planes, behind which only casts follow.
using PixelOptions =
    std::variant<FlipOptions, NormalizeOptions, CastOptions, PadChannelsOptions, TransposeOptions>;

struct PixelStep {
  std::string stage;  // identity of the random draws
  PixelOptions options;
};

// What may stand first: it says which pixels there are.
using FirstOptions = std::variant<std::monostate, RandomResizedCropOptions, ResizeOptions,
                                  RandomCropOptions, CenterCropOptions>;

struct FusedImageOptions {
  std::string field = "image";
  std::optional<DecodeImageOptions> decode = std::nullopt;  // only before a crop of its output
  std::string first_stage = {};                             // identity of the random draws
  FirstOptions first = {};                                  // monostate: all pixels as they are
  std::optional<ResizeOptions> resize = std::nullopt;       // of what RandomCrop or CenterCrop left
  std::vector<PixelStep> steps = {};

  // Ops that it stands for; a decode and its crop are one.
  size_t num_stages() const {
    return steps.size() + (std::holds_alternative<std::monostate>(first) ? 0 : 1) +
           (resize ? 1 : 0);
  }
};

// True when these may be a part of a FusedImageOptions: a resize behind a first op, a step behind
// others.
bool CanBeResized(const FirstOptions& first, const ResizeOptions& resize);
bool CanFollow(const std::vector<PixelStep>& steps, const PixelOptions& next);

// The bits, errors and random draws are those of the ops one after the other. Images are uint8 or
// float32.
absl::StatusOr<std::unique_ptr<Op>> MakeFusedImage(FusedImageOptions options);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FUSED_OPS_H_
