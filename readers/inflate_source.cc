#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/byte_source.h"

// Inflates gzip and zlib with ISA-L, straight into the caller's buffer. ISA-L parses the wrapper
// and checks the trailer (CRC-32 and ISIZE, or Adler-32) itself; what it does not do is look past
// the end of a member, or tell a stream that was cut from one that waits for input. Both are done
// here: end of input is good only between members, and after a gzip member only another may follow.

namespace millrace::readers {
namespace {

class InflateSource : public ByteSource {
 public:
  InflateSource(std::shared_ptr<const RandomAccessFile> file, Compression compression,
                size_t chunk_bytes)
      : file_(std::move(file)),
        compression_(compression),
        input_(std::clamp<size_t>(chunk_bytes, 16, size_t{1} << 30)) {
    isal_inflate_init(&state_);
  }

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    constexpr size_t kMostPerCall = size_t{1} << 30;  // avail_out has 32 bits
    const size_t want = std::min(out.size(), kMostPerCall);
    state_.next_out = reinterpret_cast<uint8_t*>(out.data());
    state_.avail_out = static_cast<uint32_t>(want);
    while (status_.ok() && !finished_ && state_.avail_out == want) status_ = Step();
    const size_t got = want - state_.avail_out;
    if (got > 0) return got;  // damage behind these bytes is told by the next call
    if (!status_.ok()) return status_;
    return size_t{0};
  }

  std::optional<uint64_t> Remaining() const override { return std::nullopt; }
  const std::string& path() const override { return file_->path(); }

 private:
  // Inflates once, after making sure that there is input; sets finished_ at the end.
  absl::Status Step() {
    if (state_.avail_in == 0 && !input_ended_) MILLRACE_RETURN_IF_ERROR(Refill());
    if (!in_member_) {
      if (state_.avail_in == 0 && num_members_ > 0) {
        finished_ = true;
        return absl::OkStatus();
      }
      MILLRACE_RETURN_IF_ERROR(StartMember());
    }
    if (in_header_) return ReadHeader();
    const uint32_t in_before = state_.avail_in;
    const uint32_t out_before = state_.avail_out;
    const int result = isal_inflate(&state_);
    if (result != ISAL_DECOMP_OK) return Damage(RecordErrorReason::kCompressedData, Text(result));
    if (state_.block_state == ISAL_BLOCK_FINISH) {
      // Bytes behind the trailer of zlib, which is shorter than what ISA-L fetches at once.
      if (state_.read_in_length >= 8) return StrayBytes();
      in_member_ = false;
      ++num_members_;
      return absl::OkStatus();
    }
    if (state_.avail_in != in_before || state_.avail_out != out_before) return absl::OkStatus();
    if (state_.avail_in == 0 && input_ended_) return Cut();
    return Damage(RecordErrorReason::kCompressedData, "the inflater is stuck");
  }

  absl::Status Refill() {
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset_, input_));
    offset_ += got;
    input_ended_ = got < input_.size();
    state_.next_in = reinterpret_cast<uint8_t*>(input_.data());
    state_.avail_in = static_cast<uint32_t>(got);
    return absl::OkStatus();
  }

  absl::Status StartMember() {
    if (state_.avail_in == 0) return Cut();
    const std::span<const std::byte> next(reinterpret_cast<const std::byte*>(state_.next_in),
                                          state_.avail_in);
    const bool is_gzip = compression_ == Compression::kGzip;
    if (num_members_ == 0 && !LooksLike(compression_, next)) {
      return Damage(RecordErrorReason::kWrongCompression,
                    is_gzip ? "not a gzip stream" : "not a zlib stream");
    }
    if (num_members_ > 0 && !(is_gzip && LooksLike(compression_, next))) return StrayBytes();
    isal_inflate_reset(&state_);
    isal_gzip_header_init(&header_);
    state_.crc_flag = is_gzip ? ISAL_GZIP_NO_HDR_VER : ISAL_ZLIB;
    in_header_ = is_gzip;
    in_member_ = true;
    return absl::OkStatus();
  }

  // Not left to isal_inflate, which forgets between two calls how long the extra field is.
  absl::Status ReadHeader() {
    const int result = isal_read_gzip_header(&state_, &header_);
    if (result == ISAL_END_INPUT && state_.avail_in == 0) {
      return input_ended_ ? Cut() : absl::OkStatus();
    }
    if (result != ISAL_DECOMP_OK) return Damage(RecordErrorReason::kCompressedData, Text(result));
    constexpr uint32_t kReservedFlags = 0xe0;  // RFC 1952: what they announce is not known
    if ((header_.flags & kReservedFlags) != 0) {
      return Damage(RecordErrorReason::kCompressedData, Text(ISAL_INVALID_WRAPPER));
    }
    in_header_ = false;
    return absl::OkStatus();
  }

  absl::Status StrayBytes() const {
    return Damage(RecordErrorReason::kCompressedData, "stray bytes after the compressed stream");
  }

  absl::Status Cut() const {
    return Damage(RecordErrorReason::kCompressedCut, "the compressed stream is cut off");
  }

  absl::Status Damage(RecordErrorReason reason, std::string_view text) const {
    RecordError error;
    error.file = file_->path();
    error.reason = reason;
    return MakeRecordError(
        absl::StatusCode::kDataLoss, error,
        absl::StrCat(ToAbsl(text), " (near compressed byte ", offset_ - state_.avail_in, ")"));
  }

  static std::string_view Text(int result) {
    switch (result) {
      case ISAL_NEED_DICT:
        return "the zlib stream needs a dictionary";
      case ISAL_INCORRECT_CHECKSUM:
        return "the checksum of the compressed stream does not match";
      case ISAL_INVALID_WRAPPER:
      case ISAL_UNSUPPORTED_METHOD:
        return "invalid header of a compressed stream";
      default:
        return "invalid deflate data";
    }
  }

  const std::shared_ptr<const RandomAccessFile> file_;
  const Compression compression_;
  std::vector<std::byte> input_;
  uint64_t offset_ = 0;  // of the byte after input_, in the file
  bool input_ended_ = false;
  bool in_member_ = false;
  bool in_header_ = false;
  bool finished_ = false;
  uint64_t num_members_ = 0;  // that ended well
  absl::Status status_;       // the first failure
  inflate_state state_ = {};
  isal_gzip_header header_ = {};  // nothing of it is kept
};

}  // namespace

std::unique_ptr<ByteSource> MakeInflateSource(std::shared_ptr<const RandomAccessFile> file,
                                              Compression compression, size_t chunk_bytes) {
  return std::make_unique<InflateSource>(std::move(file), compression, chunk_bytes);
}

}  // namespace millrace::readers
