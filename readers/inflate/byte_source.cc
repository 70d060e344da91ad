#include "readers/inflate/byte_source.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/status.h"
#include "readers/inflate/deflate_source.h"

namespace millrace::readers {
namespace {

class PlainSource : public ByteSource {
 public:
  explicit PlainSource(std::shared_ptr<const RandomAccessFile> file) : file_(std::move(file)) {}

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset_, out));
    offset_ += got;
    return got;
  }
  HeldBytes Borrow(size_t again, size_t count) override {
    const uint64_t begin = offset_ - again;
    if (begin >= file_->size()) return {};
    count = std::min<uint64_t>(count, file_->size() - begin);
    std::shared_ptr<const std::byte> bytes = file_->Borrow(begin, count);
    if (bytes == nullptr) return {};
    offset_ = begin + count;
    return {{bytes.get(), count}, std::move(bytes)};
  }
  std::optional<uint64_t> Remaining() const override {
    return file_->size() > offset_ ? file_->size() - offset_ : 0;
  }
  const std::string& path() const override { return file_->path(); }

 private:
  const std::shared_ptr<const RandomAccessFile> file_;
  uint64_t offset_ = 0;
};

}  // namespace

std::string_view CompressionName(Compression compression) {
  switch (compression) {
    case Compression::kAuto:
      return "auto";
    case Compression::kNone:
      return "none";
    case Compression::kGzip:
      return "gzip";
    case Compression::kZlib:
      return "zlib";
    case Compression::kZstd:
      return "zstd";
  }
  return "unknown";
}

std::string_view CompressionEnding(Compression compression) {
  switch (compression) {
    case Compression::kGzip:
      return ".gz";
    case Compression::kZlib:
      return ".zlib";
    case Compression::kZstd:
      return ".zst";
    case Compression::kAuto:
    case Compression::kNone:
      break;
  }
  return "";
}

std::string_view WithoutCompressionEnding(std::string_view name) {
  for (const Compression packed : {Compression::kGzip, Compression::kZlib, Compression::kZstd}) {
    const std::string_view ending = CompressionEnding(packed);
    if (name.size() > ending.size() && name.ends_with(ending)) {
      return name.substr(0, name.size() - ending.size());
    }
  }
  return name;
}

bool LooksLike(Compression compression, std::span<const std::byte> first) {
  const auto byte = [&](size_t i) { return std::to_integer<unsigned>(first[i]); };
  const auto begins_with = [&](std::span<const unsigned> magic) {
    for (size_t i = 0; i < magic.size() && i < first.size(); ++i) {
      if (byte(i) != magic[i]) return false;
    }
    return true;
  };
  if (compression == Compression::kGzip) {  // RFC 1952: ID1, ID2, CM = deflate
    constexpr std::array<unsigned, 3> kMagic = {0x1f, 0x8b, 8};
    return begins_with(kMagic);
  }
  if (compression == Compression::kZstd) {  // RFC 8878: a frame, or one to be skipped
    constexpr std::array<unsigned, 4> kMagic = {0x28, 0xb5, 0x2f, 0xfd};
    const std::array<unsigned, 4> skipped = {0x50 | (byte(0) & 0x0f), 0x2a, 0x4d, 0x18};
    return begins_with(kMagic) || begins_with(skipped);
  }
  // RFC 1950: CM = deflate, CINFO <= 7; CMF * 256 + FLG is a multiple of 31.
  if ((byte(0) & 0x0f) != 8 || byte(0) >> 4 > 7) return false;
  return first.size() < 2 || (byte(0) * 256 + byte(1)) % 31 == 0;
}

Compression CompressionOf(std::span<const std::byte> first) {
  if (first.size() >= 3 && LooksLike(Compression::kGzip, first)) return Compression::kGzip;
  if (first.size() >= 4 && LooksLike(Compression::kZstd, first)) return Compression::kZstd;
  if (first.size() >= 2 && LooksLike(Compression::kZlib, first)) return Compression::kZlib;
  return Compression::kNone;
}

absl::StatusOr<std::unique_ptr<ByteSource>> MakeByteSource(
    std::shared_ptr<const RandomAccessFile> file, Compression compression, size_t chunk_bytes) {
  if (compression == Compression::kNone) return std::make_unique<PlainSource>(std::move(file));
  return MakeEnterableSource(std::move(file), compression, chunk_bytes);
}

const LostBytes* FindLost(std::span<const LostBytes> lost, uint64_t begin, uint64_t end) {
  const auto first = std::ranges::upper_bound(
      lost, begin, {}, [](const LostBytes& bytes) { return bytes.begin + bytes.bytes - 1; });
  return first != lost.end() && first->begin < end ? &*first : nullptr;
}

}  // namespace millrace::readers
