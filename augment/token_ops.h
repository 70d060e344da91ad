#ifndef MILLRACE_AUGMENT_TOKEN_OPS_H_
#define MILLRACE_AUGMENT_TOKEN_OPS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"

// One-to-one ops over strings and rows of tokens. None of them draws at random. Row errors are
// INVALID_ARGUMENT with RecordErrorReason kValue.

namespace millrace::augment {

class Vocabulary;

// Replaces a token by its id, an int64: the number of its line in the file, from 0. The id of an
// unknown token is default_id, or, with buckets, lines + floor(h * oov_buckets / 2^64), where h is
// the 64-bit XXH3 with seed 0; without either it is a row error.
struct VocabularyOptions {
  std::vector<std::string> fields = {};  // kBytes
  std::string output = {};               // new name, if there is one field; "": the field's
  std::string file = {};                 // in the format of Vocabulary::Load
  std::optional<int64_t> default_id = {};
  int64_t oov_buckets = 0;  // not with default_id
  // True if a value is text instead of a token: its words, separated by ASCII white space, are
  // looked up, and the field becomes int64 [number of words].
  bool split = false;
  uint64_t digest = 0;  // expected Vocabulary::digest(); 0: any
  // The loaded `file`, which several ops may share; null: the op loads it.
  std::shared_ptr<const Vocabulary> loaded = {};
};

// Makes rows of tokens [n] `length` tokens long: shorter rows are filled up, longer rows are cut.
struct PadTokensOptions {
  enum class Truncate { kRight, kLeft, kNever };

  std::string field = "tokens";  // int32, int64, float32 or float64
  int64_t length = 0;            // 1 to 2^24
  double value = 0;              // value of added tokens; must be a number of the dtype
  bool left = false;             // true if tokens are added in front of the row, not behind it
  Truncate truncate = Truncate::kRight;  // the end where a longer row is cut; kNever: row error
  // Names of new int64 fields; empty: none. `mask` is [length], 1 for tokens and 0 for added ones;
  // `lengths` is the number of tokens that were kept.
  std::string mask = {};
  std::string lengths = {};
};

// Makes the op, and reads the file unless it is loaded.
//   INVALID_ARGUMENT  an option is wrong, or "FILE:LINE: ..." if the file is no vocabulary
//   FAILED_PRECONDITION  the file has another digest
//   other             the file cannot be read
absl::StatusOr<std::unique_ptr<Op>> MakeVocabulary(VocabularyOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakePadTokens(PadTokensOptions options);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_TOKEN_OPS_H_
