#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>
#include <vector>

#include "augment/codec/encoder.h"

// Memory that runs out while an image is encoded. This program's operator new fails where a test
// says.

namespace {

std::atomic<size_t> most_bytes{SIZE_MAX};  // of one allocation; set and read by the test's thread

}  // namespace

void* operator new(size_t size) {
  void* const memory = size > most_bytes ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace millrace::augment {
namespace {

TEST(JpegEncoderTest, MemoryThatRunsOutIsAnErrorAtWhateverSize) {
  constexpr int64_t kSide = 1024;
  std::vector<uint8_t> noise(kSide * kSide * 3);  // becomes about as many bytes
  std::mt19937 random(1);
  for (uint8_t& value : noise) value = static_cast<uint8_t>(random());
  const auto whole = EncodeJpeg(noise.data(), kSide, kSide, 3, 95);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (size_t limit = whole->size() / 2; limit > (1 << 12); limit /= 2) {
    most_bytes = limit;
    const auto encoded = EncodeJpeg(noise.data(), kSide, kSide, 3, 95);
    most_bytes = SIZE_MAX;
    EXPECT_EQ(encoded.status().code(), absl::StatusCode::kResourceExhausted) << limit;
  }
  EXPECT_EQ(*EncodeJpeg(noise.data(), kSide, kSide, 3, 95), *whole);
}

}  // namespace
}  // namespace millrace::augment
