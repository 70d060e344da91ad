#include "readers/inflate/deflate_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"

// Inflates gzip and zlib with ISA-L, straight into the caller's buffer. ISA-L parses the wrapper
// and checks the trailer (CRC-32 and ISIZE, or Adler-32) itself; but it does not look past the
// end of a member, or tell a stream that was cut from one that waits for input. Both are done
// here: end of input is good only between members, and after a gzip member only another may follow,
// or zeros to the end of the file, with which tapes and block devices pad it (gzip's FAQ).
//
// zlib can stop at the end of every deflate block (Z_BLOCK), ISA-L cannot, but is 2.6 times as
// fast. It does show a block when its input ends inside the block's header: it keeps the bytes of
// the header, and how many bits before them are left over. So blocks are found by showing it less
// input at a time than a header has. That costs a call for 32 bytes, but only for the one block in
// four MiB that is wanted: no difference to plain inflating could be measured.

namespace millrace::readers {
namespace {

// Headers with Huffman codes have 60 to 100 bytes as a rule.
constexpr uint32_t kLookBytes = 32;

std::string_view Text(int result) {
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

}  // namespace

InflateSource::InflateSource(std::shared_ptr<const RandomAccessFile> file, Compression compression,
                             size_t chunk_bytes, uint64_t begin)
    : file_(std::move(file)),
      compression_(compression),
      input_(std::clamp<size_t>(chunk_bytes, 16, size_t{1} << 30)),
      offset_(begin),
      member_begin_(begin) {
  isal_inflate_init(&state_);
}

absl::StatusOr<size_t> InflateSource::Read(std::span<std::byte> out) {
  const size_t want = Prepare(out);
  while (status_.ok() && !ended_ && state_.avail_out == want) status_ = Step();
  const size_t got = want - state_.avail_out;
  if (got > 0) return got;  // damage behind these bytes is told by the next call
  if (!status_.ok()) return status_;
  return size_t{0};
}

absl::StatusOr<size_t> InflateSource::ReadToEntry(std::span<std::byte> out,
                                                  std::optional<InflateEntry>& entry) {
  const size_t want = Prepare(out);
  const uint64_t members = num_members_;
  entry.reset();
  if (status_.ok() && !ended_) {
    LimitInput();
    status_ = Step();
    FreeInput();
  }
  const size_t got = want - state_.avail_out;
  if (!status_.ok()) return got > 0 ? absl::StatusOr<size_t>(got) : status_;
  if (num_members_ > members) {
    entry = InflateEntry{.in_bits = 8 * consumed()};
  } else if (in_member_ && !in_header_ && state_.block_state == ISAL_BLOCK_HDR &&
             state_.avail_out > 0) {
    const uint64_t begun = 8 * static_cast<uint64_t>(state_.tmp_in_size) +
                           static_cast<uint64_t>(state_.read_in_length);
    entry = InflateEntry{.in_bits = 8 * consumed() - begun, .in_member = true};
  }
  return got;
}

size_t InflateSource::Prepare(std::span<std::byte> out) {
  constexpr size_t kMostPerCall = size_t{1} << 30;  // avail_out has 32 bits
  const size_t want = std::min(out.size(), kMostPerCall);
  state_.next_out = reinterpret_cast<uint8_t*>(out.data());
  state_.avail_out = static_cast<uint32_t>(want);
  return want;
}

// Inflates once, after making sure that there is input; sets ended_ at the end.
absl::Status InflateSource::Step() {
  if (avail_in() == 0 && !input_ended_) MILLRACE_RETURN_IF_ERROR(Refill());
  if (!in_member_) {
    if (avail_in() == 0 && num_members_ > 0) {
      ended_ = true;
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
  if (avail_in() == 0 && input_ended_) return Cut();
  return Damage(RecordErrorReason::kCompressedData, "the inflater is stuck");
}

absl::Status InflateSource::Refill() {
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset_, input_));
  offset_ += got;
  input_ended_ = got < input_.size();
  state_.next_in = reinterpret_cast<uint8_t*>(input_.data());
  state_.avail_in = static_cast<uint32_t>(got);
  return absl::OkStatus();
}

absl::Status InflateSource::StartMember() {
  member_begin_ = consumed();
  if (avail_in() == 0) return Cut();
  const std::span<const std::byte> next(reinterpret_cast<const std::byte*>(state_.next_in),
                                        avail_in());
  const bool is_gzip = compression_ == Compression::kGzip;
  if (num_members_ == 0 && !LooksLike(compression_, next)) {
    return Damage(RecordErrorReason::kWrongCompression,
                  is_gzip ? "not a gzip stream" : "not a zlib stream");
  }
  if (num_members_ > 0 && is_gzip && next[0] == std::byte{0}) return SkipPadding();
  if (num_members_ > 0 && !(is_gzip && LooksLike(compression_, next))) return StrayBytes();
  isal_inflate_reset(&state_);
  isal_gzip_header_init(&header_);
  state_.crc_flag = is_gzip ? ISAL_GZIP_NO_HDR_VER : ISAL_ZLIB;
  in_header_ = is_gzip;
  in_member_ = true;
  return absl::OkStatus();
}

// Goes to the end, behind zeros.
absl::Status InflateSource::SkipPadding() {
  while (avail_in() > 0) {
    const std::string_view rest(reinterpret_cast<const char*>(state_.next_in), avail_in());
    if (rest.find_first_not_of('\0') != rest.npos) return StrayBytes();
    state_.avail_in = 0;
    held_back_ = 0;
    if (!input_ended_) MILLRACE_RETURN_IF_ERROR(Refill());
  }
  ended_ = true;
  return absl::OkStatus();
}

// Not left to isal_inflate, which forgets between two calls how long the extra field is.
absl::Status InflateSource::ReadHeader() {
  const int result = isal_read_gzip_header(&state_, &header_);
  if (result == ISAL_END_INPUT && state_.avail_in == 0) {
    return avail_in() == 0 && input_ended_ ? Cut() : absl::OkStatus();
  }
  if (result != ISAL_DECOMP_OK) return Damage(RecordErrorReason::kCompressedData, Text(result));
  constexpr uint32_t kReservedFlags = 0xe0;  // RFC 1952: the meaning of these flags is not known
  if ((header_.flags & kReservedFlags) != 0) {
    return Damage(RecordErrorReason::kCompressedData, Text(ISAL_INVALID_WRAPPER));
  }
  in_header_ = false;
  return absl::OkStatus();
}

// Shows the next step only so much input as ends inside the header of a block, if one begins; of
// a stored block, whose header is short, all that is left.
void InflateSource::LimitInput() {
  uint32_t look = kLookBytes;
  if (state_.block_state == ISAL_BLOCK_TYPE0) {
    const int32_t left = state_.type0_block_len - state_.read_in_length / 8;
    look = static_cast<uint32_t>(std::max(left, 1));
  }
  if (state_.avail_in <= look) return;
  held_back_ = state_.avail_in - look;
  state_.avail_in = look;
}

void InflateSource::FreeInput() { state_.avail_in += std::exchange(held_back_, 0); }

absl::Status InflateSource::StrayBytes() const {
  return Damage(RecordErrorReason::kCompressedData, "stray bytes after the compressed stream");
}

absl::Status InflateSource::Cut() const {
  return Damage(RecordErrorReason::kCompressedCut, "the compressed stream is cut off");
}

absl::Status InflateSource::Damage(RecordErrorReason reason, std::string_view text) const {
  RecordError error;
  error.file = file_->path();
  error.reason = reason;
  return MakeRecordError(absl::StatusCode::kDataLoss, error,
                         absl::StrCat(ToAbsl(text), " (near compressed byte ", consumed(), ")"));
}

std::unique_ptr<EnterableSource> MakeEnterableSource(std::shared_ptr<const RandomAccessFile> file,
                                                     Compression compression, size_t chunk_bytes,
                                                     uint64_t begin) {
  if (compression == Compression::kZstd) return MakeZstdSource(std::move(file), chunk_bytes, begin);
  return std::make_unique<InflateSource>(std::move(file), compression, chunk_bytes, begin);
}

}  // namespace millrace::readers
