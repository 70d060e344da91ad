#ifndef MILLRACE_READERS_FEATURE_SPEC_H_
#define MILLRACE_READERS_FEATURE_SPEC_H_

#include <string>

#include "base/dtype.h"
#include "base/shape.h"

namespace millrace::readers {

// The column in which records enter the first op, unless the plan names another.
inline constexpr char kRecordField[] = "record";

// One part of a record that becomes a column: a feature of tf.train.Example, a value of a JSON
// object, a column of a CSV row, a member of a tar sample.
struct FeatureSpec {
  std::string key;            // in the record
  std::string name;           // of the column
  DType dtype = DType::kF32;  // kBytes, kI64 or kF32, the three kinds that an Example has
  // Per sample; for kBytes ignored (one string, shape {length}). The first extent may be kUnknown:
  // as many as the record has, the other extents' product at a time.
  Shape shape;
  // What a record without the feature gets, one value repeated (an unknown extent is then 1).
  // Unset: such a record is kFeature, or with an unknown extent has 0.
  bool has_default = false;
  int64_t default_int = 0;
  float default_float = 0;
  std::string default_bytes;
  // Of a SequenceExample: a feature list. The first extent of its shape is kUnknown, the number of
  // steps; the others are those of every step. Not kBytes; kU8 has one string of that many bytes
  // per step. It has no default: a record without it is kFeature, or has 0 steps.
  bool per_step = false;
  bool allow_missing = false;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FEATURE_SPEC_H_
