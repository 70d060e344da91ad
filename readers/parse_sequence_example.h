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
  // Of the context, and feature lists (`per_step`). A key may be that of one of each.
  std::vector<FeatureSpec> features;
  std::string field = kRecordField;  // bytes
};

// The op `parse_sequence_example`: the column `field` (consumed) to one column per feature. Those
// of the context are what parse_example makes of them; a feature list is an array of its steps,
// each of which has exactly the values of the declared shape, as
// tf.io.parse_single_sequence_example has it for FixedLenSequenceFeature. What is not asked for is
// skipped without being parsed; of a key given twice the later wins. Row errors: DATA_LOSS kExample
// (not a valid message), INVALID_ARGUMENT kFeature (missing, or other kind or number of values; it
// names key and step).
absl::StatusOr<std::unique_ptr<Op>> MakeParseSequenceExample(ParseSequenceExampleOptions options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_PARSE_SEQUENCE_EXAMPLE_H_
