#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/inflate/deflate_source.h"

// Inflates zstd with libzstd. A file is frames one after the other, some of which (a seek table,
// say) hold nothing to inflate; each frame is an entry. libzstd checks the sums of frames that have
// one.

namespace millrace::readers {
namespace {

constexpr int kMostWindowLog = 27;       // 128 MiB, which a stream may ask for
constexpr size_t kLeastHeaderBytes = 5;  // of a frame

class ZstdSource : public EnterableSource {
 public:
  ZstdSource(std::shared_ptr<const RandomAccessFile> file, size_t chunk_bytes, uint64_t begin)
      : file_(std::move(file)),
        buffer_(std::clamp<size_t>(chunk_bytes, 16, size_t{1} << 30)),
        stream_(ZSTD_createDStream()),
        offset_(begin),
        member_begin_(begin) {
    if (stream_ == nullptr) {
      status_ = absl::ResourceExhaustedError(absl::StrCat(file_->path(), ": no memory for zstd"));
    } else {
      ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kMostWindowLog);
    }
  }

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    ZSTD_outBuffer to = {out.data(), out.size(), 0};
    while (status_.ok() && !ended_ && to.pos == 0) status_ = Step(to);
    if (to.pos > 0) return to.pos;  // damage behind these bytes is told by the next call
    if (!status_.ok()) return status_;
    return size_t{0};
  }

  absl::StatusOr<size_t> ReadToEntry(std::span<std::byte> out,
                                     std::optional<InflateEntry>& entry) override {
    ZSTD_outBuffer to = {out.data(), out.size(), 0};
    entry.reset();
    if (status_.ok() && !ended_) status_ = Step(to);
    if (!status_.ok()) return to.pos > 0 ? absl::StatusOr<size_t>(to.pos) : status_;
    if (!in_frame_ && !ended_) entry = InflateEntry{.in_bits = 8 * consumed()};
    return to.pos;
  }

  bool ended() const override { return ended_; }
  uint64_t consumed() const override { return offset_ - (in_.size - in_.pos); }
  uint64_t member_begin() const override { return member_begin_; }
  const std::string& path() const override { return file_->path(); }

 private:
  struct FreeStream {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };

  // Inflates once, after making sure that there is input; sets ended_ at the end.
  absl::Status Step(ZSTD_outBuffer& to) {
    if (in_.pos == in_.size && !input_ended_) MILLRACE_RETURN_IF_ERROR(Refill());
    if (!in_frame_) {
      if (in_.pos == in_.size) {
        ended_ = num_frames_ > 0;
        return ended_ ? absl::OkStatus() : Cut();
      }
      MILLRACE_RETURN_IF_ERROR(StartFrame());
    }
    const size_t in_before = in_.pos;
    const size_t out_before = to.pos;
    ZSTD_inBuffer shown = {in_.src, std::min(in_.size, in_.pos + wanted_), in_.pos};
    const size_t left = ZSTD_decompressStream(stream_.get(), &to, &shown);
    in_.pos = shown.pos;
    wanted_ = std::max(left, kLeastHeaderBytes);
    if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation) {
      return absl::ResourceExhaustedError(absl::StrCat(file_->path(), ": zstd: no memory"));
    }
    if (ZSTD_isError(left)) {
      return Damage(RecordErrorReason::kCompressedData, ZSTD_getErrorName(left));
    }
    NoteFrame(in_before, to.pos - out_before);
    if (left == 0) {
      in_frame_ = false;
      ++num_frames_;
      return CheckFrame();
    }
    if (in_.pos != in_before || to.pos != out_before) return absl::OkStatus();
    if (in_.pos == in_.size && input_ended_) return Cut();
    return Damage(RecordErrorReason::kCompressedData, "the inflater is stuck");
  }

  absl::Status StartFrame() {
    member_begin_ = consumed();
    const std::span<const std::byte> next = std::span(buffer_).subspan(in_.pos, in_.size - in_.pos);
    if (!LooksLike(Compression::kZstd, next)) {
      if (num_frames_ == 0) {
        return Damage(RecordErrorReason::kWrongCompression, "not a zstd stream");
      }
      return Damage(RecordErrorReason::kCompressedData, "stray bytes after the compressed stream");
    }
    in_frame_ = true;
    wanted_ = kLeastHeaderBytes;
    header_size_ = 0;
    frame_bytes_ = 0;
    return absl::OkStatus();
  }

  // Notes the bytes of the frame that were taken from `in_before` on, and how many they gave.
  void NoteFrame(size_t in_before, size_t out_bytes) {
    const size_t count = std::min(header_.size() - header_size_, in_.pos - in_before);
    std::memcpy(header_.data() + header_size_, static_cast<const std::byte*>(in_.src) + in_before,
                count);
    header_size_ += count;
    frame_bytes_ += out_bytes;
  }

  // libzstd's streams take a frame that gives less than its header says.
  absl::Status CheckFrame() const {
    const unsigned long long said = ZSTD_getFrameContentSize(header_.data(), header_size_);
    if (said == ZSTD_CONTENTSIZE_UNKNOWN || said == ZSTD_CONTENTSIZE_ERROR ||
        said == frame_bytes_) {
      return absl::OkStatus();
    }
    return Damage(
        RecordErrorReason::kCompressedData,
        absl::StrCat("a frame of ", frame_bytes_, " bytes, of which its header says ", said));
  }

  absl::Status Refill() {
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset_, buffer_));
    offset_ += got;
    input_ended_ = got < buffer_.size();
    in_ = {buffer_.data(), got, 0};
    return absl::OkStatus();
  }

  absl::Status Cut() const {
    return Damage(RecordErrorReason::kCompressedCut, "the compressed stream is cut off");
  }

  absl::Status Damage(RecordErrorReason reason, std::string_view text) const {
    RecordError error;
    error.file = file_->path();
    error.reason = reason;
    return MakeRecordError(absl::StatusCode::kDataLoss, error,
                           absl::StrCat(ToAbsl(text), " (near compressed byte ", consumed(), ")"));
  }

  const std::shared_ptr<const RandomAccessFile> file_;
  std::vector<std::byte> buffer_;
  const std::unique_ptr<ZSTD_DStream, FreeStream> stream_;
  ZSTD_inBuffer in_ = {nullptr, 0, 0};  // of buffer_
  uint64_t offset_;                     // of the byte after in_, in the file
  uint64_t member_begin_;
  // The bytes that libzstd asks for next: a block. The output of a call that fails is lost, so a
  // call gets no more.
  size_t wanted_ = kLeastHeaderBytes;
  // Of the frame: its first bytes, as many as a header may have, and what it gave so far.
  std::array<std::byte, 18> header_ = {};
  size_t header_size_ = 0;
  uint64_t frame_bytes_ = 0;
  bool input_ended_ = false;
  bool in_frame_ = false;
  bool ended_ = false;
  uint64_t num_frames_ = 0;  // that ended well
  absl::Status status_;      // the first failure
};

}  // namespace

std::unique_ptr<EnterableSource> MakeZstdSource(std::shared_ptr<const RandomAccessFile> file,
                                                size_t chunk_bytes, uint64_t begin) {
  return std::make_unique<ZstdSource>(std::move(file), chunk_bytes, begin);
}

}  // namespace millrace::readers
