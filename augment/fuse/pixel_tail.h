#ifndef MILLRACE_AUGMENT_FUSE_PIXEL_TAIL_H_
#define MILLRACE_AUGMENT_FUSE_PIXEL_TAIL_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "augment/fuse/pixel_head.h"
#include "augment/fused_ops.h"
#include "augment/rows/kernels.h"
#include "base/run.h"
#include "base/schema.h"

namespace millrace::augment {

// The steps behind the first op, which work row by row. Immutable after Resolve.
class PixelTail {
 public:
  // Errors are those of the ops' own Make functions.
  static absl::StatusOr<PixelTail> Make(std::vector<PixelStep> steps);

  // Does the same as the ops' own Resolve one after the other; `field` is the image's.
  absl::StatusOr<Schema> Resolve(Schema schema, const std::string& field);

  DType dtype() const { return dtype_; }
  // Returns the output's shape for an image of height x width.
  Shape ShapeOf(int64_t height, int64_t width) const;

  // Writes the image of `row` to `out`, dense.
  void Write(const PixelSource& source, int64_t row, Run& run, void* out) const;

 private:
  struct Flip {
    uint64_t stage;
    float probability;
    bool vertical;  // true if top and bottom are swapped; else left and right
  };
  // A step that converts the pixels of a row one by one.
  struct RowStep {
    std::function<void(const void* in, int64_t pixels, void* out)> apply;
    int64_t channels;  // channels of the output
    size_t element;    // bytes of one of its values
  };
  struct Flips {
    bool horizontal = false;  // true if left and right are swapped
    bool vertical = false;    // true if top and bottom are swapped
  };
  class Writer;

  void AddStep(const NormalizeOptions& options);
  void AddStep(const CastOptions& options);
  void AddStep(const PadChannelsOptions& options);
  void AddStep(const FlipOptions&) {}
  void AddStep(const TransposeOptions&) { planes_ = true; }
  Flips DrawFlips(int64_t row, const Run& run) const;

  std::vector<PixelStep> steps_;
  std::vector<std::shared_ptr<Op>> ops_;  // for Make and Resolve

  // Set by Resolve.
  DType dtype_ = DType::kU8;
  int64_t channels_ = 0;       // channels of the output
  bool first_scales_ = false;  // true if row_steps_[0] normalizes pixels of three values
  PixelScaling scaling_;       // the factors of row_steps_[0] then
  std::vector<Flip> flips_;
  std::vector<RowStep> row_steps_;
  bool planes_ = false;  // true if channels come first in the output
};

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FUSE_PIXEL_TAIL_H_
