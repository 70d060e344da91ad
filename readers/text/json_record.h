#ifndef MILLRACE_READERS_TEXT_JSON_RECORD_H_
#define MILLRACE_READERS_TEXT_JSON_RECORD_H_

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "readers/text/record_fields.h"

// One JSON object (RFC 8259) per record.

namespace millrace::readers::internal {

// Which places of an object are wanted. A key is a path, "user.id": the member "id" of the object
// that is the member "user" of the record (or the member "user.id" of the record itself).
class JsonPaths {
 public:
  // Nesting of objects and arrays in each other, the record included.
  static constexpr int kMaxDepth = 64;

  // `features` must outlive it. With `allow_nan`, NaN, Infinity and -Infinity are numbers.
  JsonPaths(std::span<const FeatureSpec> features, bool allow_nan);

  // Reads `record`; `fields` are those of the features, all missing. The whole record is checked,
  // what is not wanted too.
  //   DATA_LOSS         not one object of JSON in UTF-8, or nested deeper than kMaxDepth
  //   INVALID_ARGUMENT  a value is not what its feature declares, or there twice
  absl::Status Read(std::string_view record, RunArena& arena, std::span<RecordField> fields) const;

 private:
  friend class JsonReader;

  const std::span<const FeatureSpec> features_;
  const bool allow_nan_;  // true if NaN and the infinities are numbers of float32
  std::unordered_map<std::string, size_t> wanted_;  // feature by its path
  std::unordered_set<std::string> parents_;         // paths of objects that a wanted one lies in
};

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_TEXT_JSON_RECORD_H_
