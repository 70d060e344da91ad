#ifndef MILLRACE_READERS_CONVERT_SCHEMA_H_
#define MILLRACE_READERS_CONVERT_SCHEMA_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"

namespace millrace::readers {

// The declaration of a feature of samples.
struct ConvertFeature {
  std::string name;
  DType dtype = DType::kBytes;  // kBytes, kI64 or kF32
  bool is_list = false;      // true if it has any number of values, in JSON an array; not of kBytes
  bool is_optional = false;  // true if a sample may be without it

  friend bool operator==(const ConvertFeature&, const ConvertFeature&) = default;
};

// Parses "label:int64,weight:float32?,ids:int64[],name:bytes": the dtype is bytes, int64 or float32
// (or float), [] marks a list, and a ? at the end a feature that may be missing. The name ends at
// the last colon.
//   INVALID_ARGUMENT  names the part that is wrong
absl::StatusOr<std::vector<ConvertFeature>> ParseConvertSchema(std::string_view text);
std::string ToString(std::span<const ConvertFeature> schema);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CONVERT_SCHEMA_H_
