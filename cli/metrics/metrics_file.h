#ifndef MILLRACE_CLI_METRICS_METRICS_FILE_H_
#define MILLRACE_CLI_METRICS_METRICS_FILE_H_

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/unique_fd.h"

namespace millrace::cli {

struct MetricsFileOptions {
  std::string path;
  std::chrono::milliseconds every{10'000};  // the time from line to line
  int rank = 0;                             // this process's, said in each line
};

// Appends a registry to a file, at regular times and at the end, as lines of JSON:
//   {"time": 1764226069.5, "rank": 0, "metrics": {"millrace_batches_total": 120, ...}}
// Each line is one write, so that ranks may share a file. A thread of its own writes. After an
// error, such as a full disk or a pipe whose reader has ended, it warns, and writes no more.
class MetricsFile {
 public:
  //   NOT_FOUND, PERMISSION_DENIED, ...  the file cannot be opened
  //   RESOURCE_EXHAUSTED                 no thread
  static absl::StatusOr<std::unique_ptr<MetricsFile>> Open(const MetricsFileOptions& options,
                                                           std::shared_ptr<Metrics> metrics);
  ~MetricsFile();  // writes the last line
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

 private:
  MetricsFile(const MetricsFileOptions& options, std::shared_ptr<Metrics> metrics, UniqueFd fd)
      : options_(options), metrics_(std::move(metrics)), fd_(std::move(fd)) {}

  void StartThread();
  void Run();
  absl::Status WriteLine();

  // Constant after construction.
  const MetricsFileOptions options_;
  const std::shared_ptr<Metrics> metrics_;
  const UniqueFd fd_;

  Mutex mu_;
  CondVar end_;
  bool ends_ MILLRACE_GUARDED_BY(mu_) = false;  // true once the last line is due
  std::thread thread_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_METRICS_METRICS_FILE_H_
