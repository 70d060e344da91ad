#ifndef MILLRACE_READERS_PARSE_EXAMPLE_H_
#define MILLRACE_READERS_PARSE_EXAMPLE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"
#include "readers/feature_spec.h"

namespace millrace::readers {

struct ParseExampleOptions {
  std::vector<FeatureSpec> features;
  std::string field = kRecordField;  // bytes
};

// Makes the op `parse_example`, which turns the column `field` (consumed) into one column per
// feature. Other features are skipped without being parsed. Packed and unpacked lists are accepted;
// of a key given twice the later wins. Row errors: DATA_LOSS kExample (not a valid message),
// INVALID_ARGUMENT kFeature (missing, other kind, other length).
absl::StatusOr<std::unique_ptr<Op>> MakeParseExample(ParseExampleOptions options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_PARSE_EXAMPLE_H_
