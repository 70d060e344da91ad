#ifndef MILLRACE_CLI_EMULATE_VISIT_RECORD_H_
#define MILLRACE_CLI_EMULATE_VISIT_RECORD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/audit.h"

namespace millrace::cli {

// Returns the resume token in a file, "" if there is no such file.
//   INVALID_ARGUMENT  the file is larger than any token, or a token and its line end are not there
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

// Records the batches that `millrace run` received: their samples in an audit log, and then the
// token of the last batch. Thread-compatible.
class VisitRecord {
 public:
  // Either path may be empty: then that part is not recorded.
  static absl::StatusOr<VisitRecord> Open(const std::string& audit_path,
                                          const std::string& token_path, const pipeline::Plan& plan,
                                          const pipeline::Pipeline& stream,
                                          const pipeline::OpenOptions& options);

  absl::Status Add(const pipeline::Batch& batch);
  absl::Status Finish(bool end_of_stream);

 private:
  std::unique_ptr<pipeline::AuditLog> log_;
  std::string token_path_;
  uint64_t next_batch_ = 0;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_VISIT_RECORD_H_
