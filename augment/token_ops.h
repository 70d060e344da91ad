#ifndef MILLRACE_AUGMENT_TOKEN_OPS_H_
#define MILLRACE_AUGMENT_TOKEN_OPS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"

// One-to-one ops over strings and rows of tokens. None of them draws at random. Row errors:
// INVALID_ARGUMENT with RecordErrorReason kValue.

namespace millrace::augment {

class Vocabulary;

// A token becomes its id, an int64: the number of its line in the file, from 0. A token that the
// file does not have becomes default_id, or, with buckets, lines + floor(h * oov_buckets / 2^64) of
// h = XXH3, 64 bits, seed 0; otherwise it is an error of the row.
struct VocabularyOptions {
  std::vector<std::string> fields = {};  // kBytes
  std::string output = {};               // of one field: its new name; "": the field's
  std::string file = {};                 // Vocabulary::Load says how it looks
  std::optional<int64_t> default_id = {};
  int64_t oov_buckets = 0;  // not with default_id
  // A value is text, not a token: words between white space (the six of ASCII) are looked up, and
  // the field becomes int64 [number of words].
  bool split = false;
  uint64_t digest = 0;  // that the file must have; 0: any
  // What Vocabulary::Load has made of `file`, shared by all ops that have it; none: the op loads
  // it.
  std::shared_ptr<const Vocabulary> loaded = {};
};

// A row of tokens [n] becomes one of `length` tokens: shorter ones are filled up, longer ones cut.
struct PadTokensOptions {
  enum class Truncate { kRight, kLeft, kNever };

  std::string field = "tokens";  // int32, int64, float32 or float64
  int64_t length = 0;            // 1 to 2^24
  double value = 0;              // of what is added; the dtype has to have it
  bool left = false;             // where it is added: in front of the tokens, or behind them
  Truncate truncate = Truncate::kRight;  // where a longer row loses tokens; kNever: row error
  // If they are named, new int64 fields: [length], 1 for tokens and 0 for what was added, and the
  // number of tokens that were kept.
  std::string mask = {};
  std::string lengths = {};
};

// Reads the file, unless it is loaded.
//   INVALID_ARGUMENT  an option is wrong, or "FILE:LINE: ..." for a file that is no vocabulary
//   FAILED_PRECONDITION  the file has another digest
//   other             the file cannot be read
absl::StatusOr<std::unique_ptr<Op>> MakeVocabulary(VocabularyOptions options);
absl::StatusOr<std::unique_ptr<Op>> MakePadTokens(PadTokensOptions options);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_TOKEN_OPS_H_
