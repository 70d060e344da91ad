#ifndef MILLRACE_PIPELINE_CUT_STATE_H_
#define MILLRACE_PIPELINE_CUT_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace millrace::pipeline {

// Writes a settler's state: numbers in LEB128, a checksum behind them, all in base64 of the
// URL-safe alphabet without padding, so that it is one word of a resume token. Thread-compatible.
class StateWriter {
 public:
  StateWriter();
  void Number(uint64_t value);
  // Returns the text, and begins the next one in the same memory.
  std::string Finish();

 private:
  std::string bytes_;
};

// Reads a text that StateWriter wrote. After damage every number is 0 and ok() is false, so a
// caller may read on and ask once. Thread-compatible.
class StateReader {
 public:
  //   INVALID_ARGUMENT  not a text of Finish: another alphabet, checksum or version
  static absl::StatusOr<StateReader> Open(std::string_view text);

  uint64_t Number();
  // Returns a number that has to be at most `max`.
  uint64_t NumberUpTo(uint64_t max);
  // Returns how many things follow, each of at least `bytes_each` bytes: never more than the state
  // holds.
  uint64_t Count(uint64_t bytes_each);
  // Marks the text as damaged: the numbers read so far make no sense.
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && next_ == bytes_.size(); }

 private:
  std::string bytes_;
  size_t next_ = 0;
  bool ok_ = true;  // false once damage was met
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_CUT_STATE_H_
