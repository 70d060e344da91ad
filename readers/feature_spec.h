#ifndef MILLRACE_READERS_FEATURE_SPEC_H_
#define MILLRACE_READERS_FEATURE_SPEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/shape.h"

namespace millrace::readers {

// The column in which records enter the first op, unless the plan names another.
inline constexpr char kRecordField[] = "record";

// One part of a record that becomes a column: a feature of tf.train.Example, a value of a JSON
// object, a column of a CSV row, a member of a tar sample.
struct FeatureSpec {
  std::string key;            // name in the record
  std::string name;           // name of the column
  DType dtype = DType::kF32;  // kBytes, kI64 or kF32, the three kinds that an Example has
  // Shape of a sample; ignored for kBytes (one string, shape {length}). The first extent may be
  // kUnknown: it follows from the number of values in the record.
  Shape shape;
  // True if a record without the feature gets a default: one value, repeated (an unknown extent is
  // then 1). With no default such a record is a kFeature error, or has 0 values if the first extent
  // is unknown.
  bool has_default = false;
  int64_t default_int = 0;
  float default_float = 0;
  std::string default_bytes;
  // True for a feature list of a SequenceExample. The first extent of its shape is kUnknown, the
  // number of steps; the others are those of each step. Not kBytes; kU8 has one string of that many
  // bytes per step. It has no default: a record without it is a kFeature error, or has 0 steps if
  // allow_missing.
  bool per_step = false;
  bool allow_missing = false;  // true for 0 steps in a record without the feature list
};

// The names of one feature: in the record, and of its column.
struct FeatureName {
  std::string key;
  std::string column;
};

// Returns the features that a key with lists in braces stands for: "I{0..2}" is I0, I1 and I2.
// Braces are those of names of files (readers/expand_files.h). The lists of `name` are as long:
// "int_{0..2}". Without braces: the one feature.
//   INVALID_ARGUMENT  key and name stand for different numbers of features, or for too many
absl::StatusOr<std::vector<FeatureName>> ExpandKeys(const std::string& key,
                                                    const std::string& name);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FEATURE_SPEC_H_
