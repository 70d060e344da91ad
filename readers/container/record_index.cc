#include "readers/container/record_index.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/little_endian.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/container/detect.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/open_file.h"
#include "readers/shard_stamp.h"
#include "xxhash.h"

namespace millrace::readers {
namespace {

constexpr std::array<char, 8> kMagic = {'M', 'L', 'R', 'I', 'N', 'D', 'E', 'X'};
constexpr uint32_t kVersion = 3;
constexpr size_t kIndexHeaderBytes = 104;
static_assert(kIndexHeaderBytes % 8 == 0, "begins are aligned where the whole file is");
constexpr size_t kHeaderChecksumAt = kIndexHeaderBytes - sizeof(uint64_t);

// Headers are picked out of windows of the file: wide ones while records are small, so that one
// read serves many headers; narrow ones where a record is longer than a wide window saves.
constexpr size_t kWideWindow = 256 << 10;
constexpr size_t kNarrowWindow = 4 << 10;
constexpr uint64_t kLargeRecord = 64 << 10;

class HeaderWalk {
 public:
  HeaderWalk(const RandomAccessFile& file, const WalkOptions& options,
             std::vector<uint64_t>& begins)
      : file_(file),
        size_(file.size()),
        options_(options),
        longest_(std::min(options.max_record_bytes, kMaxLength)),
        begins_(begins),
        window_(kWideWindow) {
    begins_.assign(1, 0);
  }

  absl::Status Run() {
    while (begins_.back() < size_) {
      WalkWindow();
      if (begins_.back() < size_) MILLRACE_RETURN_IF_ERROR(Step());
    }
    Report();
    return absl::OkStatus();
  }

 private:
  // Steps over the good records whose headers the window holds; Step is for all others.
  void WalkWindow() {
    uint64_t offset = begins_.back();
    while (offset >= window_begin_ && offset + kHeaderBytes <= window_end_) {
      const FrameHeader header = DecodeHeader(window_.data() + (offset - window_begin_));
      if ((options_.verify_crc && !header.crc_ok) || header.length > longest_ ||
          header.length + kFrameBytes > size_ - offset) {
        return;
      }
      offset += kFrameBytes + header.length;
      begins_.push_back(offset);
      last_length_ = header.length;
    }
  }

  absl::Status Step() {
    const uint64_t offset = begins_.back();
    MILLRACE_RETURN_IF_ERROR(Load(offset));
    const uint64_t remaining = size_ - offset;
    if (remaining == 0) return absl::OkStatus();
    if (remaining < kHeaderBytes) {
      return Damage(
          RecordErrorReason::kTruncatedHeader,
          absl::StrCat("the file ends after ", remaining, " of ", kHeaderBytes, " header bytes"));
    }
    const std::byte* const at = window_.data() + (offset - window_begin_);
    const FrameHeader header = DecodeHeader(at);
    if (options_.verify_crc && !header.crc_ok) {
      const BadHeader bad = ExplainBadHeader(at, offset, options_.plain);
      return Damage(bad.reason, bad.text);
    }
    if (header.length > longest_) {
      return Damage(RecordErrorReason::kAbsurdLength,
                    absl::StrCat("a record of ", header.length, " bytes; the limit is ",
                                 options_.max_record_bytes));
    }
    if (header.length + kFrameBytes > remaining) {
      return Damage(RecordErrorReason::kTruncatedPayload,
                    absl::StrCat("the file ends inside a record of ", header.length, " bytes"));
    }
    begins_.push_back(offset + kFrameBytes + header.length);
    last_length_ = header.length;
    return absl::OkStatus();
  }

  void Report() {
    if (options_.advanced) options_.advanced(begins_.back() - reported_);
    reported_ = begins_.back();
  }

  // Makes the window hold the header at `offset`, or what there is of it before the end.
  absl::Status Load(uint64_t offset) {
    if (offset >= window_begin_ && offset + kHeaderBytes <= window_end_) return absl::OkStatus();
    Report();
    const uint64_t want = std::min<uint64_t>(
        last_length_ >= kLargeRecord ? kNarrowWindow : kWideWindow, size_ - offset);
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(offset, {window_.data(), want}));
    window_begin_ = offset;
    window_end_ = offset + got;
    if (got < want) size_ = file_.size();  // known only now where it is inflated meanwhile
    if (got >= kHeaderBytes || window_end_ == size_) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(file_.path(), ": shrank to ", window_end_,
                                            " bytes while it was being indexed"));
  }

  absl::Status Damage(RecordErrorReason reason, std::string_view text) const {
    RecordError error;
    error.file = file_.path();
    error.offset = static_cast<int64_t>(begins_.back());
    error.ordinal = static_cast<int64_t>(begins_.size() - 1);
    error.reason = reason;
    return MakeRecordError(absl::StatusCode::kDataLoss, error, text);
  }

  const RandomAccessFile& file_;
  uint64_t size_;
  const WalkOptions& options_;
  const uint64_t longest_;  // payload that a record may have
  std::vector<uint64_t>& begins_;
  std::vector<std::byte> window_;
  uint64_t window_begin_ = 0;
  uint64_t window_end_ = 0;
  uint64_t last_length_ = 0;
  uint64_t reported_ = 0;
};

absl::Status Damaged(const RandomAccessFile& file, std::string_view what) {
  return absl::DataLossError(absl::StrCat(file.path(), ": damaged index: ", ToAbsl(what)));
}

absl::Status Other(const RandomAccessFile& file, std::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat(file.path(), ": index of another ", ToAbsl(what)));
}

absl::Status NoMemory(uint64_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("no memory for an index of ", bytes, " bytes"));
}

// Bounds the memory that is allocated, even if the file says otherwise.
absl::Status CheckSize(const RandomAccessFile& file, const FrameFormat& format,
                       uint64_t shard_bytes) {
  if (file.size() <= kIndexHeaderBytes) return Damaged(file, "size");
  const uint64_t most_begins = shard_bytes / format.least_bytes + 1;
  const bool too_long = (file.size() - kIndexHeaderBytes) / sizeof(uint64_t) > most_begins;
  return too_long ? Other(file, "size") : absl::OkStatus();
}

absl::Status CheckHeader(const RandomAccessFile& file,
                         std::span<const std::byte, kIndexHeaderBytes> header, const IndexKey& key,
                         const FrameFormat& format, uint64_t shard_bytes) {
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0) return Damaged(file, "magic");
  if (LoadU32(&header[8]) != kVersion) return Other(file, "version");
  if (XXH3_64bits(header.data(), kHeaderChecksumAt) != LoadU64(&header[kHeaderChecksumAt])) {
    return Damaged(file, "checksum of the header");
  }
  const ShardStamp stamp = {LoadU64(&header[32]), static_cast<int64_t>(LoadU64(&header[40]))};
  const auto compression = static_cast<Compression>(LoadU64(&header[48]));
  const uint64_t container = LoadU64(&header[88]);
  if (IndexKey{LoadU64(&header[16]), LoadU64(&header[24]), stamp, compression, container} != key) {
    return Other(file, "shard or container, or of an earlier state of it");
  }
  const uint32_t width = LoadU32(&header[12]);
  if (width != 4 && width != 8) return Damaged(file, "width");
  const uint64_t num_records = LoadU64(&header[56]);
  const uint64_t num_begins = (file.size() - kIndexHeaderBytes) / width;
  if (num_begins == 0 || num_begins - 1 != num_records ||
      file.size() != kIndexHeaderBytes + num_begins * width) {
    return Damaged(file, "count");
  }
  // The longest record bounds what is allocated for one.
  const bool too_large =
      num_records > shard_bytes / format.least_bytes || LoadU64(&header[64]) > shard_bytes;
  return too_large ? Other(file, "size") : absl::OkStatus();
}

}  // namespace

RecordIndex::RecordIndex(std::shared_ptr<const IndexMemory> memory,
                         std::span<const std::byte> begins, uint32_t width,
                         const FrameFormat& format, uint64_t longest)
    : memory_(std::move(memory)),
      num_records_(begins.size() / width - 1),
      overhead_bytes_(format.overhead_bytes),
      longest_(longest) {
  if (width == sizeof *begins_) {
    begins_ = reinterpret_cast<const uint32_t*>(begins.data());
  } else {
    begins_ = nullptr;
    wide_ = reinterpret_cast<const uint64_t*>(begins.data());
  }
}

RecordIndex RecordIndex::Regular(uint64_t first, uint64_t frame_bytes, uint64_t count,
                                 std::optional<uint64_t> rest_bytes) {
  RecordIndex index;
  index.begins_ = nullptr;
  index.first_ = first;
  index.frame_bytes_ = frame_bytes;
  index.num_records_ = count;
  index.longest_ = count == 0 ? 0 : frame_bytes;
  if (!rest_bytes.has_value()) return index;
  index.rest_ = count;
  index.end_ = first + count * frame_bytes + *rest_bytes;
  ++index.num_records_;
  return index;
}

absl::StatusOr<RecordIndex> RecordIndex::Make(std::span<const uint64_t> begins,
                                              const FrameFormat& format,
                                              std::shared_ptr<IndexMemory> memory,
                                              std::span<const uint32_t> lengths) {
  const bool narrow = begins.back() <= std::numeric_limits<uint32_t>::max();
  const uint32_t width = narrow ? sizeof(uint32_t) : sizeof(uint64_t);
  const size_t begin_bytes = begins.size() * width;
  const std::span<std::byte> bytes = memory->Take(begin_bytes + lengths.size_bytes());
  if (bytes.empty()) return NoMemory(begin_bytes + lengths.size_bytes());
  if (narrow) {
    std::ranges::copy(begins, reinterpret_cast<uint32_t*>(bytes.data()));
  } else {
    std::ranges::copy(begins, reinterpret_cast<uint64_t*>(bytes.data()));
  }
  uint64_t longest_frame = format.overhead_bytes;
  for (size_t i = 1; i < begins.size(); ++i) {
    longest_frame = std::max(longest_frame, begins[i] - begins[i - 1]);
  }
  RecordIndex index(std::move(memory), bytes.first(begin_bytes), width, format,
                    longest_frame - format.overhead_bytes);
  if (lengths.empty()) return index;
  auto* const kept = reinterpret_cast<uint32_t*>(bytes.data() + begin_bytes);
  std::ranges::copy(lengths, kept);
  index.lengths_ = kept;
  index.longest_ = std::ranges::max(lengths);
  return index;
}

std::span<const std::byte> RecordIndex::bytes() const {
  const size_t num_begins = num_records_ + 1;
  if (begins_ != nullptr) return std::as_bytes(std::span(begins_, num_begins));
  return wide_ == nullptr ? std::span<const std::byte>()
                          : std::as_bytes(std::span(wide_, num_begins));
}

uint64_t RecordIndex::LengthsDigest() const {
  if (begins_ == nullptr && wide_ == nullptr) {
    const std::array<uint64_t, 3> all = {frame_bytes_, num_records_, rest_};
    const size_t count = rest_ == UINT64_MAX ? 2 : 3;
    return XXH3_64bits(all.data(), count * sizeof all[0]);
  }
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::array<uint64_t, 512> lengths;  // the format's order of bytes is the processor's
  for (uint64_t record = 0; record < num_records_;) {
    const size_t count = std::min<uint64_t>(lengths.size(), num_records_ - record);
    for (size_t i = 0; i < count; ++i) lengths[i] = length(record + i);
    XXH3_64bits_update(state.get(), lengths.data(), count * sizeof lengths[0]);
    record += count;
  }
  return XXH3_64bits_digest(state.get());
}

absl::Status WalkRecords(const RandomAccessFile& file, const WalkOptions& options,
                         std::vector<uint64_t>& begins) {
  return HeaderWalk(file, options, begins).Run();
}

std::vector<std::byte> EncodeIndex(const ShardIndex& index, const IndexKey& key) {
  const std::span<const std::byte> begins = index.records.bytes();
  std::vector<std::byte> bytes(kIndexHeaderBytes + begins.size());
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  StoreU32(kVersion, &bytes[8]);
  StoreU32(index.records.width(), &bytes[12]);
  StoreU64(key.path_high, &bytes[16]);
  StoreU64(key.path_low, &bytes[24]);
  StoreU64(key.stamp.file_size, &bytes[32]);
  StoreU64(static_cast<uint64_t>(key.stamp.mtime_ns), &bytes[40]);
  StoreU64(static_cast<uint64_t>(key.compression), &bytes[48]);
  StoreU64(index.records.num_records(), &bytes[56]);
  StoreU64(index.records.longest(), &bytes[64]);
  StoreU64(index.lengths_digest, &bytes[72]);
  StoreU64(XXH3_64bits(begins.data(), begins.size()), &bytes[80]);
  StoreU64(key.container, &bytes[88]);
  StoreU64(XXH3_64bits(bytes.data(), kHeaderChecksumAt), &bytes[kHeaderChecksumAt]);
  std::memcpy(&bytes[kIndexHeaderBytes], begins.data(), begins.size());
  return bytes;
}

absl::StatusOr<ShardIndex> ReadIndex(const RandomAccessFile& file, const IndexKey& key,
                                     const FrameFormat& format, uint64_t shard_bytes,
                                     const std::shared_ptr<IndexMemory>& memory) {
  MILLRACE_RETURN_IF_ERROR(CheckSize(file, format, shard_bytes));
  // One read for header and begins: each is a request to the disk where the file is not in memory.
  const std::span<std::byte> bytes = memory->Peek(file.size());
  if (bytes.empty()) return NoMemory(file.size());
  MILLRACE_RETURN_IF_ERROR(ReadFully(file, 0, bytes));
  const auto header = bytes.first<kIndexHeaderBytes>();
  MILLRACE_RETURN_IF_ERROR(CheckHeader(file, header, key, format, shard_bytes));
  const std::span<const std::byte> begins = bytes.subspan(kIndexHeaderBytes);
  if (XXH3_64bits(begins.data(), begins.size()) != LoadU64(&header[80])) {
    return Damaged(file, "checksum of the begins");
  }
  RecordIndex records(memory, begins, LoadU32(&header[12]), format, LoadU64(&header[64]));
  const bool fits = format.to_end ? records.end() == shard_bytes : records.end() <= shard_bytes;
  if (!fits) return Other(file, "size");
  const uint64_t lengths_digest = LoadU64(&header[72]);
  memory->Take(begins.size());  // where they lie
  return ShardIndex{std::move(records), lengths_digest};
}

}  // namespace millrace::readers
