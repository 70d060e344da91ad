#ifndef MILLRACE_AUGMENT_FIELD_OPS_H_
#define MILLRACE_AUGMENT_FIELD_OPS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"

// One-to-one ops over fields of numbers, many fields by one op: the columns of a table. Each works
// on a whole column of a run at once and replaces the fields it reads. None of them draws at
// random.
//
// A number is a uint8, int32, int64, float32 or float64 of any shape, and the shape stays. It is
// computed with as a float64; the result is rounded once, to float64 if the field is float64 and to
// float32 otherwise. Of options with a number per field, one number stands for all fields.

namespace millrace::augment {

// y = x * factor + offset, or, where min and max are given, (x - min) / (max - min).
struct ScaleOptions {
  std::vector<std::string> fields = {};
  std::vector<double> factor = {1};  // one, or one per field; so are the others
  std::vector<double> offset = {0};
  std::vector<double> min = {};  // none: factor and offset count
  std::vector<double> max = {};  // > min
};

// y = ln(max(x, min) + offset); NaN stays. By default ln(max(x, 0) + 1), what is usual for the
// counts of Criteo's logs.
struct LogOptions {
  std::vector<std::string> fields = {};
  double min = 0;
  double offset = 1;  // min + offset > 0
};

// int64: how many boundaries b have b < x, or, with `right`, b <= x, which is torch.bucketize.
// TensorFlow and Keras (Discretization) have right = true. NaN lies behind all of them.
struct BucketizeOptions {
  std::vector<std::string> fields = {};
  std::vector<double> boundaries = {};  // ascending
  bool right = false;
};

// int64 in [0, num_bins): floor(h * num_bins / 2^64) of h = XXH3, 64 bits, with the salt as its
// seed, of a kBytes value's bytes, or of the 8 bytes, little endian, of an integer as an int64.
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

// NaN, and what equals `missing`, becomes `value`, in the field's own dtype. Of an integer field
// both have to be integers of its range, and `missing` must be given.
struct FillMissingOptions {
  std::vector<std::string> fields = {};
  double value = 0;
  std::optional<double> missing = {};
};

// Fields of one dtype and one known shape [...] become `output`, [number of fields, ...].
struct StackOptions {
  std::vector<std::string> fields = {};  // consumed
  std::string output = {};
};

// INVALID_ARGUMENT names the option that is wrong; Resolve names the field.
absl::StatusOr<std::unique_ptr<Op>> MakeScale(ScaleOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakeLog(LogOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakeBucketize(BucketizeOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakeHash(HashOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakeClip(ClipOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakeFillMissing(FillMissingOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakeStack(StackOptions options);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FIELD_OPS_H_
