#ifndef MILLRACE_TRAINER_INFERENCE_PREDICTION_WRITER_H_
#define MILLRACE_TRAINER_INFERENCE_PREDICTION_WRITER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/inference/prediction.h"

namespace millrace::trainer {

// Writes predictions to a file that appears whole, at Close, or not at all. Thread-compatible.
class PredictionWriter {
 public:
  // Checks that the extension of `path` names a format: .tfrecord, .csv or .jsonl.
  //   INVALID_ARGUMENT  it does not
  static absl::Status CheckName(const std::string& path);

  // Removes what earlier processes that were killed have left beside `path`.
  //   INVALID_ARGUMENT                   as CheckName; `path` is a folder
  //   NOT_FOUND, PERMISSION_DENIED, ...  a file cannot be made beside `path`
  static absl::StatusOr<std::unique_ptr<PredictionWriter>> Open(const std::string& path);
  virtual ~PredictionWriter() = default;  // without Close: leaves no file

  virtual absl::Status Write(const Prediction& prediction) = 0;
  // Puts the file in its place, on the disk. Nothing may be written afterwards.
  virtual absl::Status Close() = 0;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_INFERENCE_PREDICTION_WRITER_H_
