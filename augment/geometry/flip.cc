#include <algorithm>
#include <cstring>
#include <utility>

#include "augment/field/convert.h"
#include "augment/image/errors.h"
#include "augment/image/options.h"
#include "augment/image/region.h"
#include "augment/image_ops.h"
#include "augment/rows/copy.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

void FlipImage(const std::byte* in, int64_t height, int64_t width, size_t pixel, std::byte* out) {
  const size_t row = static_cast<size_t>(width) * pixel;
  for (int64_t y = 0; y < height; ++y, in += row, out += row) MirrorRow(in, width, pixel, out);
}

void FlipRows(const std::byte* in, int64_t height, size_t row, std::byte* out) {
  for (int64_t y = height - 1; y >= 0; --y, out += row) {
    std::memcpy(out, in + static_cast<size_t>(y) * row, row);
  }
}

class Flip final : public Op {
 public:
  Flip(FlipOptions options, uint64_t stage) : options_(std::move(options)), stage_(stage) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_RETURN_IF_ERROR(FindImage(input, options_.field, "flip", kAnyPixel).status());
    return input;
  }

  void Apply(Run& run) const override {
    const Column in = run.Take(options_.field);
    Column& out = run.Add(options_.field, in.dtype());
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView image = in.at(row);
      auto* to = static_cast<std::byte*>(run.Allocate(out, row, image.shape));
      const auto* from = static_cast<const std::byte*>(image.data);
      const size_t pixel = static_cast<size_t>(image.shape[2]) * SizeOf(in.dtype());
      RandomStream random = run.Random(row, stage_);
      if (!DrawFlip(options_.probability, random)) {
        std::copy_n(from, image.size_bytes(), to);
      } else if (options_.vertical) {
        FlipRows(from, image.shape[0], static_cast<size_t>(image.shape[1]) * pixel, to);
      } else {
        FlipImage(from, image.shape[0], image.shape[1], pixel, to);
      }
    }
  }

 private:
  const FlipOptions options_;
  const uint64_t stage_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeFlip(FlipOptions options, const std::string& stage) {
  MILLRACE_RETURN_IF_ERROR(CheckNumber("flip", "probability", options.probability, 0, 1));
  return std::make_unique<Flip>(std::move(options), HashName(stage));
}

}  // namespace millrace::augment
