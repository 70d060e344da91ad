#ifndef MILLRACE_AUGMENT_IMAGE_MAP_IMAGES_H_
#define MILLRACE_AUGMENT_IMAGE_MAP_IMAGES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "augment/image/color_image.h"
#include "base/philox.h"
#include "base/run.h"
#include "base/status.h"

namespace millrace::augment {

// Replaces the uint8 images of a field by others of the same shapes. `make(random, in, out, arena)`
// writes one to `out` by the draws of the row and the op `stage`, or returns the row's error. It is
// not called for images without pixels.
template <typename Make>
void MapImages(Run& run, const std::string& field, uint64_t stage, const Make& make) {
  const Column in = run.Take(field);
  Column& out = run.Add(field, DType::kU8);
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    if (!run.ok(row)) continue;
    const ConstTensorView image = in.at(row);
    const Shape& shape = image.shape;
    const ColorImage view{static_cast<const uint8_t*>(image.data), shape[0], shape[1], shape[2]};
    auto* to = static_cast<uint8_t*>(run.Allocate(out, row, shape));
    if (view.size() == 0) continue;
    RandomStream random = run.Random(row, stage);
    const absl::Status status = make(random, view, to, run.arena());
    if (!status.ok()) run.Fail(row, Annotate(status, field));
  }
}

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_IMAGE_MAP_IMAGES_H_
