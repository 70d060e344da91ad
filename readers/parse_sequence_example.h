#ifndef MILLRACE_READERS_PARSE_SEQUENCE_EXAMPLE_H_
#define MILLRACE_READERS_PARSE_SEQUENCE_EXAMPLE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"
#include "readers/feature_spec.h"

namespace millrace::readers {

struct ParseSequenceExampleOptions {
  // Features of the context, and feature lists (`per_step`). One of each may have the same key.
  std::vector<FeatureSpec> features;
  std::string field = kRecordField;  // bytes
};

// Makes the op `parse_sequence_example`, which turns the column `field` (consumed) into one column
// per feature. Features of the context become what parse_example makes of them. A feature list
// becomes an array of its steps, each with exactly the values of the declared shape, as
// tf.io.parse_single_sequence_example has it for FixedLenSequenceFeature. Other features are
// skipped without being parsed; of a key given twice the later wins. Row errors: DATA_LOSS kExample
// (not a valid message), INVALID_ARGUMENT kFeature (missing, or other kind or number of values; it
// names key and step).
absl::StatusOr<std::unique_ptr<Op>> MakeParseSequenceExample(ParseSequenceExampleOptions options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_PARSE_SEQUENCE_EXAMPLE_H_
