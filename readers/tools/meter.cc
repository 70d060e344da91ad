#include "readers/tools/meter.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace millrace::readers::internal {
namespace {

constexpr int64_t kReportEveryBytes = int64_t{4} << 20;

}  // namespace

ScanMeter::ScanMeter(std::span<const std::string> files, const ScanProgress& progress)
    : progress_(progress) {
  for (const std::string& file : files) {
    std::error_code error;  // a file without a size fails when it is read
    const auto size = std::filesystem::file_size(file, error);
    sizes_.push_back(error ? 0 : static_cast<int64_t>(size));
    total_ += sizes_.back();
  }
}

void ScanMeter::Add(int64_t bytes) {
  if (!progress_) return;
  const MutexLock lock(mu_);
  done_ += bytes;
  progress_(done_, total_);
}

void FileMeter::Advance(uint64_t bytes) {
  const int64_t done = std::min(static_cast<int64_t>(bytes), size_);
  if (done - told_ < kReportEveryBytes) return;
  meter_.Add(done - told_);
  told_ = done;
}

DamagedPlace ToDamagedPlace(const absl::Status& status, const std::string& path) {
  DamagedPlace place;
  place.error = GetRecordError(status).value_or(RecordError{});
  if (place.error.file.empty()) place.error.file = path;
  place.message = std::string(status.message());
  return place;
}

}  // namespace millrace::readers::internal
