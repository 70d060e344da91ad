#ifndef MILLRACE_TESTS_FUZZ_FUZZ_INPUT_H_
#define MILLRACE_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/io.h"

// What the fuzz targets share: the input as a file in memory, and a check that stops the fuzzer.

namespace millrace::fuzz {

// Records, lines and the like may be so long in a target; no allocation may be much larger
// (run.sh: -malloc_limit_mb).
inline constexpr uint64_t kMaxRecordBytes = 1 << 20;

// Not assert: it has to hold in every build.
inline void Require(bool holds, const char* claim) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", claim);
  std::abort();
}

// The bytes of a file, in a block of their own, so that a sanitizer sees a read past the end.
class InputFile : public RandomAccessFile {
 public:
  InputFile(const uint8_t* data, size_t size)
      : size_(size), bytes_(std::make_unique<std::byte[]>(size)) {
    if (size > 0) std::memcpy(bytes_.get(), data, size);
  }

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size_) return size_t{0};
    const size_t count = std::min<uint64_t>(out.size(), size_ - offset);
    std::memcpy(out.data(), bytes_.get() + offset, count);
    return count;
  }
  uint64_t size() const override { return size_; }
  const std::string& path() const override { return path_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.get()), size_}; }

 private:
  const size_t size_;
  const std::unique_ptr<std::byte[]> bytes_;
  const std::string path_ = "input";
};

// Takes the first byte off the input, as a choice of the target's; 0 when there is none.
inline uint8_t TakeByte(const uint8_t*& data, size_t& size) {
  if (size == 0) return 0;
  --size;
  return *data++;
}

}  // namespace millrace::fuzz

#endif  // MILLRACE_TESTS_FUZZ_FUZZ_INPUT_H_
