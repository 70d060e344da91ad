#ifndef MILLRACE_READERS_TEXT_RECORD_FIELDS_H_
#define MILLRACE_READERS_TEXT_RECORD_FIELDS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/run.h"
#include "readers/feature_spec.h"

// The features of a record of text (CSV, JSON, tar).

namespace millrace::readers::internal {

// The value of one feature in one record. Which of the three is set says the feature's dtype.
struct RecordField {
  bool present = false;    // true if the record has it
  std::string_view bytes;  // a view into the record or the run's arena
  std::vector<int64_t> ints;
  std::vector<float> floats;

  void Clear() {
    present = false;
    bytes = {};
    ints.clear();
    floats.clear();
  }
  int64_t num_values() const { return static_cast<int64_t>(ints.size() + floats.size()); }
};

// Adds the number that is written as `text` to `field`, of a feature of numbers; sets it for one of
// bytes.
//   INVALID_ARGUMENT  it is no such number
absl::Status AddText(const FeatureSpec& spec, std::string_view text, RecordField& field);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_TEXT_RECORD_FIELDS_H_
