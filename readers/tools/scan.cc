#include "readers/tools/scan.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "readers/container/detect.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/inflate/byte_source.h"
#include "readers/open_file.h"
#include "readers/record_reader.h"

namespace millrace::readers::internal {
namespace {

constexpr int64_t kReportEveryBytes = int64_t{4} << 20;

// Fills in `facts`' size and compression.
absl::Status LookAt(const std::string& path, Compression declared, FileFacts* facts) {
  absl::StatusOr<std::shared_ptr<const RandomAccessFile>> file = OpenFile(path);
  if (!file.ok()) return file.status();
  facts->file_bytes = (*file)->size();
  facts->compression = declared;
  if (declared != Compression::kAuto) return absl::OkStatus();
  absl::StatusOr<Compression> detected = DetectCompression(**file);
  if (!detected.ok()) return detected.status();
  facts->compression = *detected;
  return absl::OkStatus();
}

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

void ScanMeter::InFile(uint64_t bytes) {
  const int64_t done = before_ + static_cast<int64_t>(bytes);
  if (!progress_ || done - reported_ < kReportEveryBytes) return;
  reported_ = std::min(done, total_);
  progress_(reported_, total_);
}

void ScanMeter::FinishFile(size_t file) {
  before_ += sizes_[file];
  reported_ = before_;
  if (progress_) progress_(reported_, total_);
}

FileFacts ScanFile(const std::string& path, const ScanOptions& options, ScanMeter& meter,
                   const std::function<void(const Record&)>& on_record,
                   const std::function<void(const absl::Status&)>& on_damage) {
  FileFacts facts;
  facts.unreadable = LookAt(path, options.compression, &facts);
  if (!facts.unreadable.ok()) return facts;
  TfRecordReaderOptions reader_options;
  reader_options.compression = facts.compression;
  reader_options.max_record_bytes = options.max_record_bytes;
  reader_options.resync = options.resync;
  absl::StatusOr<std::unique_ptr<RecordReader>> reader = OpenTfRecordReader(path, reader_options);
  if (!reader.ok()) {
    facts.unreadable = reader.status();
    return facts;
  }
  for (uint64_t n = 0; n < options.max_records; ++n) {
    absl::StatusOr<std::optional<Record>> record = (*reader)->Next();
    if (!record.ok() && !GetRecordError(record.status()).has_value()) {
      facts.unreadable = record.status();
      return facts;
    }
    if (!record.ok()) {
      on_damage(record.status());
      if (!(*reader)->ReadsOn()) return facts;
      continue;
    }
    if (!record->has_value()) break;
    on_record(**record);
    if (facts.compression == Compression::kNone) {
      meter.InFile((*record)->ref.offset + (*record)->ref.length + kFrameBytes);
    }
  }
  facts.whole = true;
  return facts;
}

DamagedPlace ToDamagedPlace(const absl::Status& status, const std::string& path) {
  DamagedPlace place;
  place.error = GetRecordError(status).value_or(RecordError{});
  if (place.error.file.empty()) place.error.file = path;
  place.message = std::string(status.message());
  return place;
}

}  // namespace millrace::readers::internal
