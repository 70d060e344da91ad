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

// Successive ops on one image field, run as one op: each row of pixels goes through all of them
// before the next row does, and the last step stores it in its place in the batch.

namespace millrace::augment {

// Options of an op behind the first one, which works on one row of pixels at a time. A transpose
// [2, 0, 1] makes planes; only casts may follow it.
using PixelOptions =
    std::variant<FlipOptions, NormalizeOptions, CastOptions, PadChannelsOptions, TransposeOptions>;

struct PixelStep {
  std::string stage;  // name of the stage, the identity of its random draws
  PixelOptions options;
};

// Options of the first op, which selects the pixels; monostate: all pixels as they are.
using FirstOptions = std::variant<std::monostate, RandomResizedCropOptions, ResizeOptions,
                                  RandomCropOptions, CenterCropOptions>;

struct FusedImageOptions {
  std::string field = "image";
  std::optional<DecodeImageOptions> decode = std::nullopt;  // only before a crop of its output
  std::string first_stage = {};                             // name of the first op's stage
  FirstOptions first = {};
  // Resize of the crop by `first`, which is a RandomCrop or CenterCrop.
  std::optional<ResizeOptions> resize = std::nullopt;
  std::vector<PixelStep> steps = {};

  // Number of ops that this stands for; a decode and its crop count as one.
  size_t num_stages() const {
    return steps.size() + (std::holds_alternative<std::monostate>(first) ? 0 : 1) +
           (resize ? 1 : 0);
  }
};

// True if a resize may follow `first`, and if `next` may follow these steps, in FusedImageOptions.
bool CanBeResized(const FirstOptions& first, const ResizeOptions& resize);
bool CanFollow(const std::vector<PixelStep>& steps, const PixelOptions& next);

// Makes one op with the bits, errors and random draws of the ops one after the other. Images are
// uint8 or float32.
absl::StatusOr<std::unique_ptr<Op>> MakeFusedImage(FusedImageOptions options);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FUSED_OPS_H_
