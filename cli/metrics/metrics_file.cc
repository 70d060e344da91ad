#include "cli/metrics/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/status.h"
#include "cli/exit.h"
#include "cli/live/without_signals.h"

namespace millrace::cli {
namespace {

// A number; whole ones without a fraction, and null for those that JSON lacks.
nlohmann::ordered_json NumberOf(double value) {
  constexpr double kLargestWhole = 9007199254740992;  // 2^53
  if (!std::isfinite(value)) return nullptr;
  if (std::trunc(value) == value && std::abs(value) < kLargestWhole) {
    return static_cast<int64_t>(value);
  }
  return value;
}

std::string LineOf(const Metrics& metrics, int rank) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const auto& [name, value] : metrics.Snapshot()) values[name] = NumberOf(value);
  const nlohmann::ordered_json line{
      {"time", std::chrono::duration_cast<std::chrono::milliseconds>(now).count() / 1e3},
      {"rank", rank},
      {"metrics", std::move(values)}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsFile>> MetricsFile::Open(const MetricsFileOptions& options,
                                                               std::shared_ptr<Metrics> metrics) {
  UniqueFd fd(::open(options.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd.valid()) return ErrnoStatus(errno, "open", options.path);
  std::unique_ptr<MetricsFile> file(new MetricsFile(options, std::move(metrics), std::move(fd)));
  MILLRACE_RETURN_IF_ERROR(Caught([&file] { file->StartThread(); }));
  return file;
}

// Without SIGPIPE above all: a pipe whose reader has ended is an error of write.
void MetricsFile::StartThread() {
  const WithoutSignals without;
  thread_ = std::thread(&MetricsFile::Run, this);
}

MetricsFile::~MetricsFile() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mu_);
    ends_ = true;
  }
  end_.NotifyAll();
  thread_.join();
}

void MetricsFile::Run() {
  bool is_last = false;
  while (!is_last) {
    const auto due = std::chrono::steady_clock::now() + options_.every;
    {
      const MutexLock lock(mu_);
      while (!ends_ && std::chrono::steady_clock::now() < due) {
        (void)end_.WaitFor(mu_, due - std::chrono::steady_clock::now());
      }
      is_last = ends_;
    }
    const absl::Status written = Caught([this] { return WriteLine(); });
    if (written.ok()) continue;
    Warn(absl::StrCat("no more metrics are written: ", written.message()));
    return;
  }
}

absl::Status MetricsFile::WriteLine() {
  const std::string line = LineOf(*metrics_, options_.rank);
  ssize_t bytes = 0;
  do {
    bytes = ::write(fd_.get(), line.data(), line.size());
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return ErrnoStatus(errno, "write", options_.path);
  if (bytes == static_cast<ssize_t>(line.size())) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(options_.path, ": the disk is full"));
}

}  // namespace millrace::cli
