#include "readers/damage/spans.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "base/record_error.h"
#include "base/status.h"
#include "readers/damage/compressed.h"
#include "readers/inflate/inflated_file.h"

namespace millrace::readers {
namespace {

class SpanSource : public ByteSource {
 public:
  SpanSource(std::shared_ptr<const RandomAccessFile> file, AccessPoints points)
      : file_(std::move(file)),
        points_(std::move(points)),
        spans_(MakeSpannedFile(file_, points_)) {}

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    while (at_ == bytes_.size()) {
      if (rest_ != nullptr) return ReadRest(out);
      if (ended_) return size_t{0};
      MILLRACE_RETURN_IF_ERROR(Load());
    }
    const size_t count = std::min(out.size(), bytes_.size() - at_);
    std::memcpy(out.data(), &bytes_[at_], count);
    at_ += count;
    return count;
  }

  std::optional<uint64_t> Remaining() const override { return std::nullopt; }
  std::span<const LostBytes> lost() const override { return lost_; }
  const std::string& path() const override { return file_->path(); }

 private:
  // Makes bytes_ those that follow.
  absl::Status Load() {
    offset_ += bytes_.size();
    at_ = 0;
    if (next_ == points_.spans.size() || points_.in_begin(next_) >= file_->size()) {
      End();
      return absl::OkStatus();
    }
    bytes_.assign(points_.span_bytes(next_), std::byte{0});
    const absl::Status status = spans_->Inflate(next_++, nullptr, workspace_, bytes_);
    if (status.ok()) return absl::OkStatus();
    if (!GetRecordError(status).has_value()) return status;
    lost_.push_back({.begin = offset_, .bytes = bytes_.size(), .damage = status, .exact = true});
    return absl::OkStatus();
  }

  void End() {
    bytes_.clear();
    ended_ = true;
    if (next_ < points_.spans.size()) {
      RecordError error;
      error.file = path();
      error.reason = RecordErrorReason::kCompressedCut;
      lost_.push_back({.begin = offset_,
                       .damage = MakeRecordError(absl::StatusCode::kDataLoss, error,
                                                 "the compressed stream is cut off")});
      bytes_.assign(kLostBytes, std::byte{0});
    } else if (file_->size() > points_.in_bytes) {
      rest_ = MakeSalvageSource(file_, points_.compression, points_.in_bytes);
    }
  }

  absl::StatusOr<size_t> ReadRest(std::span<std::byte> out) {
    const size_t known = rest_->lost().size();
    auto got = rest_->Read(out);
    for (const LostBytes& lost : rest_->lost().subspan(known)) {
      lost_.push_back({offset_ + lost.begin, lost.bytes, lost.damage});
    }
    return got;
  }

  const std::shared_ptr<const RandomAccessFile> file_;
  const AccessPoints points_;
  const std::shared_ptr<const SpannedFile> spans_;
  SpanWorkspace workspace_;
  size_t next_ = 0;  // span
  std::vector<std::byte> bytes_;
  size_t at_ = 0;        // of bytes_: what comes next
  uint64_t offset_ = 0;  // of bytes_, in what is handed out
  bool ended_ = false;   // no span follows
  std::unique_ptr<ByteSource> rest_;
  std::vector<LostBytes> lost_;
};

}  // namespace

absl::StatusOr<bool> StandsBehindDamage(std::shared_ptr<const RandomAccessFile> file,
                                        const AccessPoints& points) {
  const auto spans = MakeSpannedFile(file, points);
  SpanWorkspace workspace;
  std::vector<std::byte> bytes;
  bool damaged = false;
  for (size_t i = 0; i < points.spans.size() && points.in_begin(i) < file->size(); ++i) {
    bytes.resize(points.span_bytes(i));
    const absl::Status status = spans->Inflate(i, nullptr, workspace, bytes);
    if (!status.ok() && !GetRecordError(status).has_value()) return status;
    if (status.ok() && damaged) return true;
    damaged = damaged || !status.ok();
  }
  return false;
}

std::unique_ptr<ByteSource> MakeSpanSource(std::shared_ptr<const RandomAccessFile> file,
                                           AccessPoints points) {
  return std::make_unique<SpanSource>(std::move(file), std::move(points));
}

}  // namespace millrace::readers
