#include "readers/inflate/access_points.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/little_endian.h"
#include "base/status.h"
#include "readers/file/index_key.h"
#include "readers/open_file.h"
#include "readers/shard_stamp.h"
#include "xxhash.h"

namespace millrace::readers {
namespace {

constexpr std::array<char, 8> kMagic = {'M', 'L', 'R', 'P', 'O', 'I', 'N', 'T'};
constexpr uint32_t kVersion = 1;
constexpr size_t kPointsHeaderBytes = 88;
constexpr size_t kHeaderChecksumAt = kPointsHeaderBytes - sizeof(uint64_t);
constexpr size_t kRowBytes = 40;
constexpr uint64_t kInMember = uint64_t{1} << 63;
constexpr uint32_t kMostWindowBytes = kWindowBytes + 1024;  // what deflate cannot make smaller

class MemoryFile : public RandomAccessFile {
 public:
  MemoryFile(std::vector<std::byte> bytes, std::string path)
      : bytes_(std::move(bytes)), path_(std::move(path)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= bytes_.size()) return size_t{0};
    const size_t got = std::min<uint64_t>(out.size(), bytes_.size() - offset);
    std::memcpy(out.data(), bytes_.data() + offset, got);
    return got;
  }
  uint64_t size() const override { return bytes_.size(); }
  const std::string& path() const override { return path_; }

 private:
  const std::vector<std::byte> bytes_;
  const std::string path_;
};

absl::Status Damaged(const RandomAccessFile& file, std::string_view what) {
  return absl::DataLossError(absl::StrCat(file.path(), ": damaged access points: ", ToAbsl(what)));
}

absl::Status Other(const RandomAccessFile& file, std::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat(file.path(), ": access points of another ", ToAbsl(what)));
}

ShardStamp StampIn(std::span<const std::byte> header) {
  return {LoadU64(&header[32]), static_cast<int64_t>(LoadU64(&header[40]))};
}

absl::Status CheckHeader(const RandomAccessFile& file, std::span<const std::byte> header,
                         const IndexKey& key) {
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0) return Damaged(file, "magic");
  if (LoadU32(&header[8]) != kVersion) return Other(file, "version");
  if (XXH3_64bits(header.data(), kHeaderChecksumAt) != LoadU64(&header[kHeaderChecksumAt])) {
    return Damaged(file, "checksum of the header");
  }
  const auto compression = static_cast<Compression>(LoadU32(&header[12]));
  IndexKey wanted = key;
  wanted.container = 0;  // the distance that was asked for: it is in the path's hash
  if (IndexKey{LoadU64(&header[16]), LoadU64(&header[24]), StampIn(header), compression} !=
      wanted) {
    return Other(file, "shard, or of an earlier state of it");
  }
  return absl::OkStatus();
}

AccessSpan ReadRow(const std::byte* row) {
  AccessSpan span;
  const uint64_t bits = LoadU64(row);
  span.in_bits = bits & ~kInMember;
  span.in_member = (bits & kInMember) != 0;
  span.out = LoadU64(row + 8);
  span.digest = LoadU64(row + 16);
  span.window_digest = LoadU64(row + 24);
  span.window_bytes = LoadU32(row + 32);
  return span;
}

void WriteRow(const AccessSpan& span, std::byte* row) {
  StoreU64(span.in_bits | (span.in_member ? kInMember : 0), row);
  StoreU64(span.out, row + 8);
  StoreU64(span.digest, row + 16);
  StoreU64(span.window_digest, row + 24);
  StoreU32(span.window_bytes, row + 32);
}

// Whether the spans follow each other and none is larger than one may be.
bool SpansFit(const AccessPoints& points) {
  if (points.spans.empty()) return points.out_bytes == 0;
  if (points.spans[0].out != 0 || points.spans[0].in_member) return false;
  for (size_t i = 0; i < points.spans.size(); ++i) {
    const AccessSpan& span = points.spans[i];
    if (points.out_end(i) <= span.out || points.span_bytes(i) > kMostSpanBytes) return false;
    if (points.in_end(i) <= points.in_begin(i) || points.in_end(i) > points.in_bytes ||
        points.in_end(i) - points.in_begin(i) > kMostSpanBytes) {
      return false;
    }
    if (span.window_bytes > kMostWindowBytes) return false;
    if (!span.in_member && (span.window_bytes != 0 || span.in_bits % 8 != 0)) return false;
  }
  return true;
}

}  // namespace

size_t AccessPoints::SpanOf(uint64_t offset) const {
  const auto next = std::ranges::upper_bound(spans, offset, {}, &AccessSpan::out);
  return static_cast<size_t>(next - spans.begin()) - 1;
}

struct WindowPacker::State {
  isal_zstream stream = {};
  std::vector<uint8_t> level_buffer = std::vector<uint8_t>(ISAL_DEF_LVL1_DEFAULT);
};

WindowPacker::WindowPacker() : state_(std::make_unique<State>()) {}
WindowPacker::~WindowPacker() = default;

std::vector<std::byte> WindowPacker::Pack(std::span<const std::byte> window) {
  if (window.empty()) return {};
  std::vector<std::byte> packed(kMostWindowBytes);
  isal_zstream& stream = state_->stream;
  isal_deflate_stateless_init(&stream);
  stream.level = 1;
  stream.level_buf = state_->level_buffer.data();
  stream.level_buf_size = static_cast<uint32_t>(state_->level_buffer.size());
  stream.end_of_stream = 1;
  stream.next_in = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(window.data()));
  stream.avail_in = static_cast<uint32_t>(window.size());
  stream.next_out = reinterpret_cast<uint8_t*>(packed.data());
  stream.avail_out = static_cast<uint32_t>(packed.size());
  isal_deflate_stateless(&stream);  // stores what it cannot shrink, so it always fits
  packed.resize(stream.total_out);
  return packed;
}

std::optional<size_t> UnpackWindow(std::span<const std::byte> packed, std::span<std::byte> window) {
  const auto state = std::make_unique<inflate_state>();
  isal_inflate_init(state.get());
  state->next_in = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(packed.data()));
  state->avail_in = static_cast<uint32_t>(packed.size());
  state->next_out = reinterpret_cast<uint8_t*>(window.data());
  state->avail_out = static_cast<uint32_t>(window.size());
  if (isal_inflate_stateless(state.get()) != ISAL_DECOMP_OK) return std::nullopt;
  return window.size() - state->avail_out;
}

std::string PointsName(const IndexKey& key) {
  return absl::StrCat(absl::Hex(key.path_high, absl::kZeroPad16),
                      absl::Hex(key.path_low, absl::kZeroPad16), ".points");
}

std::vector<std::byte> EncodePoints(const AccessPoints& points, std::span<const std::byte> windows,
                                    const IndexKey& key) {
  const size_t table_bytes = points.spans.size() * kRowBytes;
  std::vector<std::byte> bytes(kPointsHeaderBytes + table_bytes + windows.size());
  std::byte* const table = &bytes[kPointsHeaderBytes];
  for (size_t i = 0; i < points.spans.size(); ++i) WriteRow(points.spans[i], table + i * kRowBytes);
  std::ranges::copy(windows, table + table_bytes);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  StoreU32(kVersion, &bytes[8]);
  StoreU32(static_cast<uint32_t>(key.compression), &bytes[12]);
  StoreU64(key.path_high, &bytes[16]);
  StoreU64(key.path_low, &bytes[24]);
  StoreU64(key.stamp.file_size, &bytes[32]);
  StoreU64(static_cast<uint64_t>(key.stamp.mtime_ns), &bytes[40]);
  StoreU64(points.spans.size(), &bytes[48]);
  StoreU64(points.out_bytes, &bytes[56]);
  StoreU64(windows.size(), &bytes[64]);
  StoreU64(XXH3_64bits(table, table_bytes), &bytes[72]);
  StoreU64(XXH3_64bits(bytes.data(), kHeaderChecksumAt), &bytes[kHeaderChecksumAt]);
  return bytes;
}

absl::StatusOr<AccessPoints> ReadPoints(std::shared_ptr<const RandomAccessFile> file,
                                        const IndexKey& key) {
  std::array<std::byte, kPointsHeaderBytes> header;
  MILLRACE_RETURN_IF_ERROR(ReadFully(*file, 0, header));
  MILLRACE_RETURN_IF_ERROR(CheckHeader(*file, header, key));
  const uint64_t count = LoadU64(&header[48]);
  const uint64_t body_bytes = file->size() - kPointsHeaderBytes;
  if (count > body_bytes / kRowBytes || body_bytes - count * kRowBytes != LoadU64(&header[64])) {
    return Damaged(*file, "size");
  }
  std::vector<std::byte> table(count * kRowBytes);
  MILLRACE_RETURN_IF_ERROR(ReadFully(*file, kPointsHeaderBytes, table));
  if (XXH3_64bits(table.data(), table.size()) != LoadU64(&header[72])) {
    return Damaged(*file, "checksum of the table");
  }
  AccessPoints points;
  points.compression = key.compression;
  points.in_bytes = key.stamp.file_size;
  points.out_bytes = LoadU64(&header[56]);
  points.spans.reserve(count);
  uint64_t window_at = kPointsHeaderBytes + table.size();
  for (size_t i = 0; i < count; ++i) {
    points.spans.push_back(ReadRow(&table[i * kRowBytes]));
    points.spans.back().window_at = window_at;
    window_at += points.spans.back().window_bytes;
  }
  if (!SpansFit(points)) return Damaged(*file, "order of the spans");
  points.windows = std::move(file);
  return points;
}

std::shared_ptr<const RandomAccessFile> MakeMemoryFile(std::vector<std::byte> bytes,
                                                       std::string path) {
  return std::make_shared<MemoryFile>(std::move(bytes), std::move(path));
}

}  // namespace millrace::readers
