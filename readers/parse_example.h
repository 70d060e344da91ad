#ifndef MILLRACE_READERS_PARSE_EXAMPLE_H_
#define MILLRACE_READERS_PARSE_EXAMPLE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"

namespace millrace::readers {

// The column in which records enter the first op, unless the plan names another.
inline constexpr char kRecordField[] = "record";

// One feature of tf.train.Example that becomes a column.
struct FeatureSpec {
  std::string key;            // in the Example
  std::string name;           // of the column
  DType dtype = DType::kF32;  // kBytes, kI64 or kF32: the three kinds an Example has
  // Per sample; for kBytes ignored (one string, shape {length}). The first extent may be kUnknown:
  // as many as the record has, the other extents' product at a time.
  Shape shape;
  // What a record without the feature gets, one value repeated (an unknown extent is then 1).
  // Unset: such a record is kFeature, or with an unknown extent has 0.
  bool has_default = false;
  int64_t default_int = 0;
  float default_float = 0;
  std::string default_bytes;
};

struct ParseExampleOptions {
  std::vector<FeatureSpec> features;
  std::string field = kRecordField;  // bytes
};

// The op `parse_example`: the column `field` (consumed) to one column per feature. Features that are
// not asked for are skipped without being parsed. Packed and unpacked lists are accepted; of a key
// given twice the later wins. Row errors: DATA_LOSS kExample (not a valid message),
// INVALID_ARGUMENT kFeature (missing, other kind, other length).
absl::StatusOr<std::unique_ptr<Op>> MakeParseExample(ParseExampleOptions options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_PARSE_EXAMPLE_H_
