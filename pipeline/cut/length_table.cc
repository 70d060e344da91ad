#include "pipeline/cut/length_table.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/little_endian.h"

namespace millrace::pipeline {
namespace {

constexpr std::string_view kMagic = "MLRLNGTH";
constexpr uint64_t kVersion = 1;
constexpr size_t kHeaderBytes = 48;
constexpr size_t kChecksumBytes = 8;

}  // namespace

void LengthTable::Set(uint64_t record, const int64_t* extents) {
  const std::span numbers(extents, width_);
  if (std::ranges::any_of(numbers, [](int64_t n) { return n < 0 || n >= int64_t{kUnknown}; })) {
    return;
  }
  std::ranges::transform(numbers, numbers_.begin() + static_cast<ptrdiff_t>(record * width_),
                         [](int64_t n) { return static_cast<uint32_t>(n); });
}

uint64_t LengthTable::FileBytes(uint64_t num_records, size_t width) {
  return kHeaderBytes + BytesOf(num_records, width) + kChecksumBytes;
}

std::vector<std::byte> LengthTable::Encode(uint64_t key_high, uint64_t key_low) const {
  const uint64_t num_records = numbers_.size() / width_;
  std::vector<std::byte> bytes(FileBytes(num_records, width_));
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  StoreU64(kVersion, &bytes[8]);
  StoreU64(key_high, &bytes[16]);
  StoreU64(key_low, &bytes[24]);
  StoreU64(num_records, &bytes[32]);
  StoreU64(width_, &bytes[40]);
  std::byte* to = bytes.data() + kHeaderBytes;
  for (const uint32_t number : numbers_) {
    StoreU32(number, to);
    to += sizeof(number);
  }
  StoreU64(XXH3_64bits(bytes.data(), bytes.size() - kChecksumBytes), to);
  return bytes;
}

std::optional<LengthTable> LengthTable::Decode(std::span<const std::byte> bytes, uint64_t key_high,
                                               uint64_t key_low, uint64_t num_records,
                                               size_t width) {
  if (bytes.size() != FileBytes(num_records, width)) return std::nullopt;
  const size_t body = bytes.size() - kChecksumBytes;
  if (LoadU64(&bytes[body]) != XXH3_64bits(bytes.data(), body)) return std::nullopt;
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return std::nullopt;
  if (LoadU64(&bytes[8]) != kVersion || LoadU64(&bytes[16]) != key_high ||
      LoadU64(&bytes[24]) != key_low || LoadU64(&bytes[32]) != num_records ||
      LoadU64(&bytes[40]) != width) {
    return std::nullopt;
  }
  LengthTable table(num_records, width);
  for (size_t i = 0; i < table.numbers_.size(); ++i) {
    table.numbers_[i] = LoadU32(&bytes[kHeaderBytes + i * sizeof(uint32_t)]);
  }
  return table;
}

}  // namespace millrace::pipeline
