#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>
// After the above: this program has its own malloc.
#include <malloc.h>

#include "augment/codec/decoder.h"
#include "tests/augment/heap_testing.h"
#include "tests/augment/tar_testing.h"
#include "tests/sanitized.h"

// The largest heap of each decode of the fuzzing cases of hostile-jpeg.tar.xz, where
// MILLRACE_TEST_DATA names its folder: malloc and its kin are this program's own, and count.

namespace {

std::atomic<int64_t> heap_bytes{0};  // the program's threads -> the test, relaxed: it has but one
std::atomic<int64_t> peak_bytes{0};  // too

#if !MILLRACE_SANITIZED
void* Counted(void* block) {
  if (block == nullptr) return nullptr;
  const auto now = heap_bytes += static_cast<int64_t>(malloc_usable_size(block));
  if (now > peak_bytes) peak_bytes = now;
  return block;
}

void Uncount(void* block) { heap_bytes -= static_cast<int64_t>(malloc_usable_size(block)); }
#endif

}  // namespace

#if !MILLRACE_SANITIZED
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);

void* malloc(size_t size) { return Counted(__libc_malloc(size)); }
void* calloc(size_t count, size_t size) { return Counted(__libc_calloc(count, size)); }
void* memalign(size_t alignment, size_t size) { return Counted(__libc_memalign(alignment, size)); }
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** block, size_t alignment, size_t size) {
  *block = memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}
void free(void* block) {
  if (block != nullptr) Uncount(block);
  __libc_free(block);
}
// Old and new block may be there at once.
void* realloc(void* block, size_t size) {
  const size_t old = block == nullptr ? 0 : malloc_usable_size(block);
  void* const moved = Counted(__libc_realloc(block, size));
  if (moved != nullptr || size == 0) heap_bytes -= static_cast<int64_t>(old);
  return moved;
}
}
#endif

namespace millrace::augment {
namespace {

constexpr size_t kFiles = 3270;
constexpr int64_t kMaxPixels = 1 << 18;
constexpr int64_t kSlack = 256 << 10;  // tables and the like

// What `work` adds to the heap at most.
template <typename Work>
int64_t PeakOf(const Work& work) {
  const int64_t before = heap_bytes;
  peak_bytes = before;
  work();
  return peak_bytes - before;
}

// With each option that changes what is decoded, or how.
const DecodeImageOptions kKinds[] = {{.max_pixels = kMaxPixels},
                                     {.channels = 1, .max_pixels = kMaxPixels},
                                     {.apply_exif_orientation = true, .max_pixels = kMaxPixels},
                                     {.max_pixels = kMaxPixels, .verify_full = true},
                                     {.max_pixels = kMaxPixels, .allow_truncated = true},
                                     {.max_pixels = kMaxPixels, .fast_dct = true},
                                     {.max_pixels = kMaxPixels, .fancy_upsampling = false}};

// S-IMAGE-4: four times the image in whole MCUs, as large as there are, and one row of them more;
// the coefficients of four components; the file; tables and the like.
int64_t MemoryBound(const readers::ImageHeader& info, size_t file_bytes) {
  constexpr int64_t kMcu = 32;
  const int64_t rows = (info.height + kMcu - 1) / kMcu + 1;
  const int64_t columns = (info.width + kMcu - 1) / kMcu;
  const int64_t pixels = rows * kMcu * columns * kMcu;
  return 4 * 4 * pixels + 4 * 2 * pixels + static_cast<int64_t>(file_bytes) + kSlack;
}

enum class Way { kWhole, kPart, kSmall };

struct Outcome {
  int64_t peak_bytes = 0;  // without the output
  int64_t bound_bytes = 0;
};

Outcome Decode(const std::string& file, const DecodeImageOptions& options, Way way) {
  Outcome outcome{.bound_bytes = static_cast<int64_t>(file.size()) + kSlack};
  int64_t output_bytes = 0;
  outcome.peak_bytes = PeakOf([&] {
    RunArena arena(1 << 10);
    const auto decoder = OpenImage(file, options);
    if (!decoder.ok()) return;
    const readers::ImageHeader info = (*decoder)->info();
    outcome.bound_bytes = MemoryBound(info, file.size());
    if (way == Way::kWhole) {
      output_bytes = info.height * info.width * options.channels;
      const std::unique_ptr<uint8_t[]> out(new uint8_t[static_cast<size_t>(output_bytes)]);
      static_cast<void>((*decoder)->DecodeAll(options.channels, arena, out.get()));
      return;
    }
    const Region region{info.height / 4, info.width / 4, info.height - info.height / 4,
                        info.width - info.width / 4};
    Region scaled;
    if (way == Way::kPart) {
      static_cast<void>((*decoder)->DecodeRegion(region, options.channels, arena));
    } else {
      static_cast<void>((*decoder)->DecodeScaled(region, 2, options.channels, arena, &scaled));
    }
  });
  outcome.peak_bytes -= output_bytes;
  return outcome;
}

// S-IMAGE-4: whole, in part and small, at the moment when it is most; a file that is refused by its
// header costs no more than itself.
TEST(HostileCorpus, PeakMemoryIsWithinTheBound) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  if (kSanitized) GTEST_SKIP() << "malloc is a sanitizer's";
  ASSERT_TRUE(testing::Counts([] { return heap_bytes.load(); }));
  const auto files = testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz");
  ASSERT_EQ(files.size(), kFiles);
  Outcome most;
  size_t most_of = 0;
  int64_t largest_percent = 0;  // of its bound
  for (size_t i = 0; i < files.size(); ++i) {
    for (const DecodeImageOptions& options : kKinds) {
      for (const Way way : {Way::kWhole, Way::kPart, Way::kSmall}) {
        const Outcome outcome = Decode(files[i], options, way);
        ASSERT_LE(outcome.peak_bytes, outcome.bound_bytes)
            << "file " << i << ", kind " << &options - kKinds << ", way " << static_cast<int>(way);
        largest_percent = std::max(largest_percent, 100 * outcome.peak_bytes / outcome.bound_bytes);
        if (outcome.peak_bytes <= most.peak_bytes) continue;
        most = outcome;
        most_of = i;
      }
    }
  }
  EXPECT_GT(most.peak_bytes, kMaxPixels);  // so that what is counted is the decoders' heap
  RecordProperty("peak_bytes", std::to_string(most.peak_bytes));
  RecordProperty("peak_bound_bytes", std::to_string(most.bound_bytes));
  RecordProperty("peak_file", static_cast<int>(most_of));
  RecordProperty("largest_percent_of_bound", static_cast<int>(largest_percent));
}

}  // namespace
}  // namespace millrace::augment
