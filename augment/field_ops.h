#ifndef MILLRACE_AUGMENT_FIELD_OPS_H_
#define MILLRACE_AUGMENT_FIELD_OPS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"

// One-to-one ops over fields of numbers, such as the columns of a table; one op takes many fields.
// Each works on a whole column of a run at once and replaces the fields that it reads. None of them
// draws at random.
//
// A field holds uint8, int32, int64, float32 or float64 numbers in any shape, which stays. Ops
// compute in float64 and round the result once: to float64 if the field is float64, to float32
// otherwise. Where an option has a number per field, a single number counts for all fields.

namespace millrace::augment {

// y = x * factor + offset, or, where min and max are given, (x - min) / (max - min).
struct ScaleOptions {
  std::vector<std::string> fields = {};
  std::vector<double> factor = {1};  // one, or one per field, as the options below
  std::vector<double> offset = {0};
  std::vector<double> min = {};  // empty: factor and offset are used
  std::vector<double> max = {};  // > min
};

// y = ln(max(x, min) + offset); NaN stays. The default, ln(max(x, 0) + 1), is usual for the counts
// of Criteo's logs.
struct LogOptions {
  std::vector<std::string> fields = {};
  double min = 0;
  double offset = 1;  // min + offset > 0
};

// The number of boundaries b with b < x as int64, or, with `right`, b <= x, as torch.bucketize
// counts. TensorFlow and Keras (Discretization) have right = true. NaN lies behind all boundaries.
struct BucketizeOptions {
  std::vector<std::string> fields = {};
  std::vector<double> boundaries = {};  // ascending
  bool right = false;                   // true to count b <= x
};

// A bin in [0, num_bins) as int64: floor(h * num_bins / 2^64), where h is the 64-bit XXH3, with the
// salt as its seed, of a kBytes value's bytes, or of an integer's 8 little-endian bytes as int64.
struct HashOptions {
  std::vector<std::string> fields = {};  // kBytes, uint8, int32 or int64
  std::vector<uint64_t> num_bins;        // one, or one per field; in [1, 2^63]
  std::vector<uint64_t> salt = {0};
};

// min(max(x, min), max) in the field's own dtype, to which the bounds are rounded: inwards for
// integers, to the nearest for float32. NaN stays.
struct ClipOptions {
  std::vector<std::string> fields = {};
  std::optional<double> min = {};
  std::optional<double> max = {};
};

// Replaces NaN, and values equal to `missing`, by `value`, in the field's own dtype. An integer
// field needs `missing`, and both numbers must be integers of its range.
struct FillMissingOptions {
  std::vector<std::string> fields = {};
  double value = 0;
  std::optional<double> missing = {};
};

// Stacks fields of one dtype and one known shape [...] into `output`, [number of fields, ...].
struct StackOptions {
  std::vector<std::string> fields = {};  // consumed, in this order
  std::string output = {};
};

// Make the ops. INVALID_ARGUMENT names an option that is wrong; Resolve's errors name the field.
absl::StatusOr<std::unique_ptr<Op>> MakeScale(ScaleOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakeLog(LogOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakeBucketize(BucketizeOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakeHash(HashOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakeClip(ClipOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakeFillMissing(FillMissingOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakeStack(StackOptions options);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FIELD_OPS_H_
