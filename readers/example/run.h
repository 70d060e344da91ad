#ifndef MILLRACE_READERS_EXAMPLE_RUN_H_
#define MILLRACE_READERS_EXAMPLE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/run.h"
#include "readers/example/parser.h"
#include "readers/example/short_entry.h"
#include "readers/parse_example.h"

namespace millrace::readers::internal {

// "is missing; did you mean \"label\"?": the fault of a record that has these keys, and no value of
// the feature `key`.
std::string WhyMissing(std::string_view key, std::span<const std::string_view> keys);

// Which feature has a key.
class FeatureKeys {
 public:
  explicit FeatureKeys(std::span<const FeatureSpec> features);  // which must outlive it

  // Returns the feature's number, or nothing.
  std::optional<size_t> Find(std::string_view key) const {
    const auto it = numbers_.find(key);
    return it == numbers_.end() ? std::nullopt : std::optional(it->second);
  }

 private:
  // The number of the feature of each key that an Example can have.
  std::unordered_map<std::string_view, size_t> numbers_;
};

// Parses the records of one run, row by row, into a column per feature.
//
// Files are written by one program, so the i-th entry of a record nearly always has the key of the
// i-th entry of the record before: that guess is checked with one comparison, and only a wrong one
// costs a search. An entry in the common form (readers/example/short_entry.h) of a few numbers is
// decoded where it is met, straight to its place in the column; the others are kept, and decoded
// when the whole record is known to be an Example.
class ExampleRun {
 public:
  // Adds the columns. All must outlive it. `message`: what errors call a record,
  // "tf.train.Example".
  ExampleRun(std::span<const FeatureSpec> features, const FeatureKeys& keys, const char* message,
             Run& run);

  // Parses all rows that are ok.
  void Parse(const Column& records);

 private:
  // A feature, and what is known of it in the record that is being parsed.
  struct Target {
    const FeatureSpec* spec = nullptr;
    // The place of row 0's value if the value is a few numbers, the others one after another; else
    // nullptr.
    std::byte* first = nullptr;
    size_t value_bytes = 0;
    uint8_t list_tag = 0;
    int64_t found_in = -1;  // the last row that has it
    int64_t kept_in = -1;   // the last row whose value is `entry`, still to be decoded
    FeatureEntry entry;
  };
  // A guess at the entry of some number.
  struct Guess {
    ShortEntryOf entry;
    Target* target = nullptr;  // nullptr: of no feature that is wanted
  };

  void ParseRow(int64_t row, std::string_view record);
  // Takes entries from `p` on that have the common form, up to one that has not; returns where.
  const char* Take(const char* p, const char* limit);
  const char* TakeGuessed(const char* p, const char* limit);
  // Makes the guess of the entry at `p` a better one. False: there is none.
  bool GuessBetter(const char* p, const char* limit);
  // Decodes the value of a short entry to where it belongs, if it has the common form.
  bool Store(Target& target, const char* value, const char* end) const;
  // Keeps what was not taken. `error`: what is wrong with a value that this one replaces.
  void Keep(std::string_view record, const FeatureEntry& entry, WireError* error);
  // nullptr: a key that is not wanted.
  Target* TargetOf(std::string_view key);
  // Guesses from now on that the entry of this number has `key`, which must outlive the run's work.
  void Remember(std::string_view key, Target* target);

  void FinishRow(std::string_view record);
  void Decode(size_t feature, std::string_view record, const FeatureEntry& entry);
  void DecodeRagged(size_t feature, std::string_view record, const FeatureEntry& entry);
  void SetDefault(size_t feature, std::string_view record);
  // Memory for the value of this row, which is of the feature's shape.
  void* Room(size_t feature);
  void PointColumns();

  void FailExample(const WireError& error);
  void FailFeature(const FeatureSpec& spec, std::string_view text);
  void FailMissing(const FeatureSpec& spec, std::string_view record);

  Column& column(size_t feature) { return run_.columns()[first_column_ + feature]; }

  const FeatureKeys& keys_;
  const char* const message_;
  Run& run_;
  size_t first_column_ = 0;
  std::vector<Target> targets_;  // one per feature
  std::vector<Guess> guesses_;   // by the entry's number in its record

  int64_t row_ = 0;
  size_t num_entries_ = 0;  // entries of the row so far
  size_t num_taken_ = 0;    // entries taken of the row so far, each another feature
};

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_EXAMPLE_RUN_H_
