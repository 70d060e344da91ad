#ifndef MILLRACE_CLI_DUMP_BATCH_DUMP_H_
#define MILLRACE_CLI_DUMP_BATCH_DUMP_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/batch.h"

namespace millrace::cli {

// Batches as files that numpy.load reads: batch 7 becomes
//   FOLDER/batch-000007/FIELD.npy  the tensor of each field
//   FOLDER/batch-000007.ids.npy    a structure for each row: epoch, record, sub_index, valid
// The second is written last, so the files of a batch that has it are whole. Thread-compatible.
class BatchDump {
 public:
  // "": writes nothing. The folder is made with the first batch.
  //   FAILED_PRECONDITION  it holds something, or is no folder
  //   other                it cannot be read
  static absl::StatusOr<BatchDump> Open(const std::string& name);

  // Writes a batch. Blocks on the files.
  absl::Status Add(const pipeline::Batch& batch) const;

 private:
  explicit BatchDump(std::string folder) : folder_(std::move(folder)) {}
  absl::Status AddIds(const pipeline::Batch& batch, const std::string& path) const;

  std::string folder_;
};

// The name of a field as that of a file: bytes other than ASCII letters, digits, "_", "-" and "."
// become "%2F" and the like, and so does a "." in front.
std::string FileNameOf(std::string_view field);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_DUMP_BATCH_DUMP_H_
