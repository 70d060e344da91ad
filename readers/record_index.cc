#include "readers/record_index.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/byte_source.h"
#include "readers/tfrecord_format.h"
#include "xxhash.h"

namespace millrace::readers {
namespace {

constexpr std::array<char, 8> kMagic = {'M', 'L', 'R', 'I', 'N', 'D', 'E', 'X'};
constexpr uint32_t kVersion = 1;
constexpr size_t kIndexHeaderBytes = 48;
constexpr size_t kChecksumBytes = 8;

// Headers are picked out of windows of the file: wide ones while records are small, so that one
// read serves many headers; narrow ones where a record is longer than a wide window saves.
constexpr size_t kWideWindow = 256 << 10;
constexpr size_t kNarrowWindow = 4 << 10;
constexpr uint64_t kLargeRecord = 64 << 10;

class HeaderWalk {
 public:
  HeaderWalk(const RandomAccessFile& file, const WalkOptions& options, RecordIndex& index)
      : file_(file), options_(options), index_(index), window_(kWideWindow) {}

  absl::Status Run() {
    while (index_.framed_bytes() < file_.size()) MILLRACE_RETURN_IF_ERROR(Step());
    Report();
    return absl::OkStatus();
  }

 private:
  absl::Status Step() {
    const uint64_t offset = index_.framed_bytes();
    const uint64_t remaining = file_.size() - offset;
    if (remaining < kHeaderBytes) {
      return Damage(
          RecordErrorReason::kTruncatedHeader,
          absl::StrCat("the file ends after ", remaining, " of ", kHeaderBytes, " header bytes"));
    }
    MILLRACE_RETURN_IF_ERROR(Load(offset));
    const std::byte* const at = window_.data() + (offset - window_begin_);
    const FrameHeader header = DecodeHeader(at);
    if (options_.verify_crc && !header.crc_ok) {
      const BadHeader bad = ExplainBadHeader(at, offset, options_.plain);
      return Damage(bad.reason, bad.text);
    }
    if (header.length > std::min(options_.max_record_bytes, kMaxLength)) {
      return Damage(RecordErrorReason::kAbsurdLength,
                    absl::StrCat("a record of ", header.length, " bytes; the limit is ",
                                 options_.max_record_bytes));
    }
    if (header.length + kFrameBytes > remaining) {
      return Damage(RecordErrorReason::kTruncatedPayload,
                    absl::StrCat("the file ends inside a record of ", header.length, " bytes"));
    }
    index_.Append(header.length);
    last_length_ = header.length;
    return absl::OkStatus();
  }

  void Report() {
    if (options_.advanced) options_.advanced(index_.framed_bytes() - reported_);
    reported_ = index_.framed_bytes();
  }

  // Makes the window hold the header at `offset`.
  absl::Status Load(uint64_t offset) {
    if (offset >= window_begin_ && offset + kHeaderBytes <= window_end_) return absl::OkStatus();
    Report();
    const uint64_t want = std::min<uint64_t>(
        last_length_ >= kLargeRecord ? kNarrowWindow : kWideWindow, file_.size() - offset);
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(offset, {window_.data(), want}));
    window_begin_ = offset;
    window_end_ = offset + got;
    if (got >= kHeaderBytes) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(file_.path(), ": shrank to ", window_end_,
                                            " bytes while it was being indexed"));
  }

  absl::Status Damage(RecordErrorReason reason, std::string_view text) const {
    RecordError error;
    error.file = file_.path();
    error.offset = static_cast<int64_t>(index_.framed_bytes());
    error.ordinal = static_cast<int64_t>(index_.num_records());
    error.reason = reason;
    return MakeRecordError(absl::StatusCode::kDataLoss, error, text);
  }

  const RandomAccessFile& file_;
  const WalkOptions& options_;
  RecordIndex& index_;
  std::vector<std::byte> window_;
  uint64_t window_begin_ = 0;
  uint64_t window_end_ = 0;
  uint64_t last_length_ = 0;
  uint64_t reported_ = 0;
};

uint64_t LoadLength(const std::byte* from, uint32_t width) {
  return width == 4 ? LoadU32(from) : LoadU64(from);
}

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(absl::StrCat("damaged index: ", ToAbsl(what)));
}

}  // namespace

uint64_t RecordIndex::length(uint64_t record) const {
  return offset(record + 1) - offset(record) - kFrameBytes;
}

void RecordIndex::Append(uint64_t length) {
  const uint64_t end = framed_bytes() + length + kFrameBytes;
  longest_ = std::max(longest_, length);
  if (wide_.empty() && end <= std::numeric_limits<uint32_t>::max()) {
    begins_.push_back(static_cast<uint32_t>(end));
    return;
  }
  if (wide_.empty()) Widen();
  wide_.push_back(end);
}

void RecordIndex::Widen() {
  wide_.assign(begins_.begin(), begins_.end());
  begins_ = {};
}

// The usual case in one tight loop: ten million records are opened this way while a user waits.
bool RecordIndex::FillNarrow(std::span<const std::byte> lengths, uint64_t framed_bytes) {
  const size_t count = lengths.size() / sizeof(uint32_t);
  begins_.resize(count + 1);
  uint64_t end = 0;  // cannot overflow; when it ends as wanted, every begin fitted into 32 bits
  uint32_t longest = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t length = 0;
    std::memcpy(&length, lengths.data() + i * sizeof length, sizeof length);
    longest = std::max(longest, length);
    end += length + kFrameBytes;
    begins_[i + 1] = static_cast<uint32_t>(end);
  }
  longest_ = longest;
  return end == framed_bytes;
}

std::optional<RecordIndex> RecordIndex::FromLengths(std::span<const std::byte> lengths,
                                                    uint32_t width, uint64_t framed_bytes) {
  RecordIndex index;
  if (width == sizeof(uint32_t) && framed_bytes <= std::numeric_limits<uint32_t>::max()) {
    if (!index.FillNarrow(lengths, framed_bytes)) return std::nullopt;
    return index;
  }
  uint64_t left = framed_bytes;
  for (size_t at = 0; at < lengths.size(); at += width) {
    const uint64_t length = LoadLength(lengths.data() + at, width);
    if (left < kFrameBytes || length > left - kFrameBytes) return std::nullopt;
    left -= length + kFrameBytes;
    index.Append(length);
  }
  if (left != 0) return std::nullopt;
  index.ShrinkToFit();
  return index;
}

void RecordIndex::ShrinkToFit() {
  begins_.shrink_to_fit();
  wide_.shrink_to_fit();
}

uint64_t RecordIndex::LengthsDigest() const {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::array<uint64_t, 512> lengths;  // the format's order of bytes is the processor's
  const auto update = [&](const auto& begins) {
    for (size_t record = 0; record + 1 < begins.size();) {
      const size_t count = std::min(lengths.size(), begins.size() - 1 - record);
      for (size_t i = 0; i < count; ++i, ++record) {
        lengths[i] = uint64_t{begins[record + 1]} - begins[record] - kFrameBytes;
      }
      XXH3_64bits_update(state.get(), lengths.data(), count * sizeof lengths[0]);
    }
  };
  if (wide_.empty()) {
    update(begins_);
  } else {
    update(wide_);
  }
  return XXH3_64bits_digest(state.get());
}

absl::Status WalkRecords(const RandomAccessFile& file, const WalkOptions& options,
                         RecordIndex& index) {
  return HeaderWalk(file, options, index).Run();
}

absl::StatusOr<ShardStamp> StampOf(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "stat", path);
  return ShardStamp{static_cast<uint64_t>(info.st_size),
                    int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

std::vector<std::byte> EncodeIndex(const RecordIndex& index, const ShardStamp& stamp) {
  const uint32_t width = index.longest() <= std::numeric_limits<uint32_t>::max() ? 4 : 8;
  std::vector<std::byte> bytes(kIndexHeaderBytes + index.num_records() * width + kChecksumBytes);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  StoreU32(kVersion, &bytes[8]);
  StoreU32(width, &bytes[12]);
  StoreU64(stamp.file_size, &bytes[16]);
  StoreU64(static_cast<uint64_t>(stamp.mtime_ns), &bytes[24]);
  StoreU64(index.num_records(), &bytes[32]);
  StoreU64(index.framed_bytes(), &bytes[40]);
  std::byte* to = bytes.data() + kIndexHeaderBytes;
  for (uint64_t i = 0; i < index.num_records(); ++i, to += width) {
    if (width == 4) {
      StoreU32(static_cast<uint32_t>(index.length(i)), to);
    } else {
      StoreU64(index.length(i), to);
    }
  }
  StoreU64(XXH3_64bits(bytes.data(), bytes.size() - kChecksumBytes), to);
  return bytes;
}

absl::StatusOr<RecordIndex> DecodeIndex(std::span<const std::byte> bytes, const ShardStamp& stamp) {
  if (bytes.size() < kIndexHeaderBytes + kChecksumBytes) return Damaged("too short");
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return Damaged("magic");
  const size_t body = bytes.size() - kChecksumBytes;
  if (XXH3_64bits(bytes.data(), body) != LoadU64(bytes.data() + body)) return Damaged("checksum");
  if (LoadU32(&bytes[8]) != kVersion) {
    return absl::FailedPreconditionError("index of another version");
  }
  if (LoadU64(&bytes[16]) != stamp.file_size ||
      static_cast<int64_t>(LoadU64(&bytes[24])) != stamp.mtime_ns) {
    return absl::FailedPreconditionError("index of an earlier state of the shard");
  }
  const uint32_t width = LoadU32(&bytes[12]);
  const uint64_t count = LoadU64(&bytes[32]);
  if (width != 4 && width != 8) return Damaged("width");
  const size_t lengths_bytes = body - kIndexHeaderBytes;
  if (lengths_bytes % width != 0 || lengths_bytes / width != count) return Damaged("count");
  auto index = RecordIndex::FromLengths(bytes.subspan(kIndexHeaderBytes, lengths_bytes), width,
                                        LoadU64(&bytes[40]));
  if (!index.has_value()) return Damaged("lengths");
  return *std::move(index);
}

std::string IndexName(const std::string& absolute_path) {
  const XXH128_hash_t hash = XXH3_128bits(absolute_path.data(), absolute_path.size());
  return absl::StrFormat("%016x%016x.index", hash.high64, hash.low64);
}

}  // namespace millrace::readers
