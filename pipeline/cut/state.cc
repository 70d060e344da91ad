#include "pipeline/cut/state.h"

#include <xxhash.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "base/status.h"

namespace millrace::pipeline {
namespace {

constexpr uint64_t kVersion = 1;
constexpr size_t kChecksumBytes = 4;

std::string Checksum(std::string_view bytes) {
  const uint64_t hash = XXH3_64bits(bytes.data(), bytes.size());
  std::string text;
  for (size_t i = 0; i < kChecksumBytes; ++i) text += static_cast<char>(hash >> (8 * i));
  return text;
}

absl::Status Damaged() {
  return absl::InvalidArgumentError("the state of the cut is damaged or is not one of Millrace's");
}

}  // namespace

StateWriter::StateWriter() { Number(kVersion); }

void StateWriter::Number(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

std::string StateWriter::Finish() {
  bytes_ += Checksum(bytes_);
  std::string text = absl::WebSafeBase64Escape(bytes_);
  bytes_.clear();
  Number(kVersion);
  return text;
}

absl::StatusOr<StateReader> StateReader::Open(std::string_view text) {
  StateReader reader;
  // Writing it again proves that every character counted.
  if (!absl::WebSafeBase64Unescape(ToAbsl(text), &reader.bytes_) ||
      reader.bytes_.size() <= kChecksumBytes ||
      std::string_view(absl::WebSafeBase64Escape(reader.bytes_)) != text) {
    return Damaged();
  }
  const size_t size = reader.bytes_.size() - kChecksumBytes;
  const std::string checksum = reader.bytes_.substr(size);
  reader.bytes_.resize(size);
  if (checksum != Checksum(reader.bytes_)) return Damaged();
  if (reader.Number() != kVersion) {
    return absl::InvalidArgumentError("the state of the cut has a version that is not known here");
  }
  return reader;
}

uint64_t StateReader::Number() {
  uint64_t value = 0;
  for (int shift = 0; ok_ && next_ < bytes_.size() && shift < 64; shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes_[next_++]);
    if (shift == 63 && byte > 1) break;
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  ok_ = false;
  return 0;
}

uint64_t StateReader::NumberUpTo(uint64_t max) {
  const uint64_t value = Number();
  if (value <= max) return value;
  ok_ = false;
  return 0;
}

uint64_t StateReader::Count(uint64_t bytes_each) {
  return NumberUpTo((bytes_.size() - next_) / bytes_each);
}

}  // namespace millrace::pipeline
