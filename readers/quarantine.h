#ifndef MILLRACE_READERS_QUARANTINE_H_
#define MILLRACE_READERS_QUARANTINE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/record_error.h"
#include "base/unique_fd.h"

// The quarantine: a file that names the damaged records that were met, for `records verify --from`
// and `records repair --from`. One JSON object a line (readers/FORMAT.md):
//   {"file": "a.tfrecord", "offset": 123, "ordinal": 4, "position": 77, "reason": "data_crc"}

namespace millrace::readers {

// The line of a record, with its end. Bytes of the file's name are written as they are.
std::string QuarantineLine(const RecordError& error);

// Parses a line, which is given without its end.
//   INVALID_ARGUMENT  it is not a line of a quarantine
absl::StatusOr<RecordError> ParseQuarantineLine(std::string_view line);

// Reads a whole quarantine. A record that several lines name comes once, as the first of them says.
// A last line that a kill tore is left out.
//   INVALID_ARGUMENT  "PATH:LINE: the fault", the file has more than 1 GiB, or is not UTF-8
//   NOT_FOUND, other  it cannot be read
absl::StatusOr<std::vector<RecordError>> ReadQuarantine(const std::string& path);

// Appends to a quarantine, each record once: it knows the records that were in the file when it was
// opened, and its own. Several processes may append to one file; a record that two of them meet may
// then stand there twice. Thread-compatible.
class QuarantineLog {
 public:
  // Makes the file or continues it. A last line that a kill tore is cut off, and a whole one
  // without an end gets it.
  //   INVALID_ARGUMENT  the file is no quarantine
  //   other             it cannot be opened or read
  static absl::StatusOr<std::unique_ptr<QuarantineLog>> Open(const std::string& path);

  // Hands the lines of new records to the system before it returns, all or none.
  //   other  they cannot be written
  absl::Status Add(std::span<const RecordError> errors);

 private:
  QuarantineLog(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  absl::Status Begin();
  absl::StatusOr<off_t> EndOfLines();

  const UniqueFd fd_;
  const std::string path_;
  std::unordered_set<std::string> known_;  // "ORDINAL@OFFSET:FILE"
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_QUARANTINE_H_
