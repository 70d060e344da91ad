#ifndef MILLRACE_READERS_EXAMPLE_FEATURE_LISTS_H_
#define MILLRACE_READERS_EXAMPLE_FEATURE_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/run.h"
#include "readers/example/run.h"

namespace millrace::readers::internal {

// The name of a record in errors.
inline constexpr char kSequenceExample[] = "tf.train.SequenceExample";

// Parses the feature lists of the records of one run into a column each. A list is looked at twice:
// its steps are counted, which says how much memory the value takes (and whether the bytes that are
// there can fill it), and then decoded to where it stays.
class FeatureListRun {
 public:
  // Adds the columns. All must outlive it.
  FeatureListRun(std::span<const FeatureSpec> lists, const FeatureKeys& keys, Run& run);

  // Parses all rows that are ok.
  void Parse(const Column& records);

 private:
  // A feature list in the record that is being parsed, as far as it is known.
  struct Found {
    bool here = false;  // true if the record has it
    FeatureEntry entry;
  };

  void ParseRow(std::string_view record);
  // `error`: what is wrong with a list that this one replaces.
  void Keep(std::string_view record, const FeatureEntry& entry, WireError* error);
  void Decode(size_t list, std::string_view record);
  void SetMissing(size_t list, std::string_view record);
  // Memory for the value of `steps` steps; nullptr when `bytes` are too few for them.
  void* Room(size_t list, int64_t steps, size_t bytes);

  void FailExample(const WireError& error);
  void FailList(const FeatureSpec& spec, const std::string& text);

  Column& column(size_t list) { return run_.columns()[first_column_ + list]; }

  const std::span<const FeatureSpec> lists_;
  const FeatureKeys& keys_;
  Run& run_;
  const size_t first_column_;
  std::vector<Found> found_;  // one per list
  int64_t row_ = 0;
};

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_EXAMPLE_FEATURE_LISTS_H_
