#ifndef MILLRACE_PIPELINE_CUT_LENGTH_TABLE_H_
#define MILLRACE_PIPELINE_CUT_LENGTH_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace millrace::pipeline {

// The numbers that pass 1 finds in each record of the sources where nothing is dropped or split:
// Examined::extents. A record that could not be looked at, or has a number beyond 32 bits, is not
// known and is looked at when its turn comes. Thread-compatible.
class LengthTable {
 public:
  // Knows no record. `width`: the numbers of a record, at least 1.
  LengthTable(uint64_t num_records, size_t width)
      : width_(width), numbers_(num_records * width, kUnknown) {}

  size_t width() const { return width_; }
  bool Knows(uint64_t record) const { return numbers_[record * width_] != kUnknown; }
  // Appends the numbers of a record. REQUIRES: Knows(record).
  void AppendTo(uint64_t record, std::vector<int64_t>& extents) const {
    const auto first = numbers_.begin() + static_cast<ptrdiff_t>(record * width_);
    extents.insert(extents.end(), first, first + static_cast<ptrdiff_t>(width_));
  }
  void Set(uint64_t record, const int64_t* extents);

  static uint64_t BytesOf(uint64_t num_records, size_t width) {
    return num_records * width * sizeof(uint32_t);
  }
  uint64_t memory_bytes() const { return numbers_.size() * sizeof(uint32_t); }

  // The file (readers/FORMAT.md), under a key of 128 bits.
  static uint64_t FileBytes(uint64_t num_records, size_t width);
  std::vector<std::byte> Encode(uint64_t key_high, uint64_t key_low) const;
  // Nullopt when the bytes are damaged, or of another version, key or size.
  static std::optional<LengthTable> Decode(std::span<const std::byte> bytes, uint64_t key_high,
                                           uint64_t key_low, uint64_t num_records, size_t width);

 private:
  static constexpr uint32_t kUnknown = ~uint32_t{0};

  size_t width_;
  std::vector<uint32_t> numbers_;  // `width_` of each record
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_CUT_LENGTH_TABLE_H_
