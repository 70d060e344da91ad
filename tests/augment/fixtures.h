#ifndef MILLRACE_TESTS_AUGMENT_FIXTURES_H_
#define MILLRACE_TESTS_AUGMENT_FIXTURES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "augment/geometry/affine.h"
#include "augment/image_ops.h"
#include "base/op.h"
#include "base/tensor.h"

namespace millrace::augment::testing {

// A value that owns its memory.
struct Value {
  DType dtype = DType::kU8;
  Shape shape;
  std::vector<std::byte> bytes;

  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  friend bool operator==(const Value&, const Value&) = default;
};

// The image `name` of tests/augment/testdata, which scripts/make_augment_fixtures.py and
// make_torchvision_fixtures.py write. An unknown name fails the test.
const Value& Fixture(const std::string& name);

// Of the images affine_*: degrees, shift, scale, shear, as scripts/fixture_images.py has them.
inline const AffineParameters kAffineCases[] = {
    {.degrees = 30},
    {.degrees = -107.5},
    {.translate_x = 4, .translate_y = -3},
    {.scale = double{1.7f}},
    {.degrees = 12, .scale = double{0.6f}, .shear_x = 25},
    {.degrees = 200,
     .translate_x = -2,
     .translate_y = 5,
     .scale = double{1.2f},
     .shear_x = -10,
     .shear_y = 20}};

template <typename T>
Value MakeValue(DType dtype, const Shape& shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {dtype, shape, {bytes.begin(), bytes.end()}};
}

// What `op` makes of the field "image" of a single record, number `record` of seed 1. A status that
// is not OK fails the test, and so does a schema that does not fit the value.
Value ApplyTo(const absl::StatusOr<std::unique_ptr<Op>>& op, const Value& in, uint64_t record = 0);
// The error of that row.
absl::Status RowStatus(const absl::StatusOr<std::unique_ptr<Op>>& op, const Value& in);

// The rows and columns of the image that begin at (top, left).
Value CropOf(const Value& image, int64_t top, int64_t left, int64_t height, int64_t width);

// The largest difference of two values of one shape, whatever their dtypes (uint8, float32).
double LargestDifference(const Value& a, const Value& b);

}  // namespace millrace::augment::testing

#endif  // MILLRACE_TESTS_AUGMENT_FIXTURES_H_
