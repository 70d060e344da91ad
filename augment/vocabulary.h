#ifndef MILLRACE_AUGMENT_VOCABULARY_H_
#define MILLRACE_AUGMENT_VOCABULARY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace::augment {

// The tokens of a file and their numbers. Immutable, thread-safe.
class Vocabulary {
 public:
  static constexpr uint64_t kMaxFileBytes = uint64_t{1} << 28;
  static constexpr size_t kMaxTokenBytes = 4096;
  // At this number the table takes up to 800 MiB beside the file's bytes.
  static constexpr int64_t kMaxTokens = int64_t{1} << 24;

  // Reads a file of one token per line. A token is any bytes up to the end of the line, "\n" or
  // "\r\n", which the last line may lack. An empty line is the empty token.
  //   INVALID_ARGUMENT  the file is empty, too large or not regular; "FILE:LINE: ..." for a
  //                     repeated token, a token above max_tokens, or a line that is too long
  //   other             the file cannot be read
  static absl::StatusOr<Vocabulary> Load(const std::string& file, int64_t max_tokens = kMaxTokens);

  // Returns the token's line, from 0, or -1.
  int64_t Find(std::string_view token) const {
    const auto it = ids_.find(token);
    return it == ids_.end() ? -1 : it->second;
  }
  // Returns all tokens, by number; they live as long as this.
  std::vector<std::string_view> Tokens() const;
  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  // The 64-bit XXH3, seed 0, of the file's bytes.
  uint64_t digest() const { return digest_; }

 private:
  Vocabulary() = default;
  absl::Status AddLines(const std::string& file, int64_t max_tokens);

  std::unique_ptr<const std::string> bytes_;  // the file; keys of ids_ point here
  absl::flat_hash_map<std::string_view, int64_t> ids_;
  uint64_t digest_ = 0;
};

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_VOCABULARY_H_
