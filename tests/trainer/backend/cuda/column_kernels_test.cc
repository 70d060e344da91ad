// Which thread of a pass over columns does what, also where no memory could hold the tensor; and
// sums by channel.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/backend/cuda/kernel_tensor.h"
#include "tests/trainer/backend/cuda/simt.h"
#include "trainer/backend/cuda/kernels/columns.cuh"

namespace millrace::trainer::cuda {
namespace {

using namespace on_host;  // NOLINT: the kernels' helpers

constexpr int64_t kHuge = int64_t{3} << 40;

TEST(IndicesTest, ThreadsOfALargeLaunchHaveIndicesBeyond32Bits) {
  EXPECT_EQ(IndexOf(4095, 256, 255), 4096 * 256 - 1);
  EXPECT_EQ(IndexOf(0xFFFFFFFF, 1024, 1023), (int64_t{1} << 42) - 1);
  EXPECT_EQ(BlocksFor(1), 1u);
  EXPECT_EQ(BlocksFor(257), 2u);
  EXPECT_EQ(BlocksFor(kHuge), 4096u);
}

TEST(IndicesTest, DivisionsOfBothKindsAreExact) {
  for (const int64_t value : {int64_t{0}, int64_t{5}, int64_t{0xFFFFFFFF}, int64_t{1} << 32,
                              kHuge + 12345, kHuge * 7 + 1}) {
    for (const int64_t by :
         {int64_t{1}, int64_t{7}, int64_t{64}, int64_t{0xFFFFFFFF}, int64_t{1} << 33, kHuge}) {
      EXPECT_EQ(Divide(value, by).quotient, value / by) << value << " " << by;
      EXPECT_EQ(Divide(value, by).rest, value % by) << value << " " << by;
    }
  }
  int64_t index = (kHuge * 130 + 129) * 8 + 3;
  EXPECT_EQ(TakeLast(index, 8), 3);
  EXPECT_EQ(TakeLast(index, 130), 129);
  EXPECT_EQ(index, kHuge);
}

// The pixels and channels of all threads of some blocks of a pass: each pixel is one thread's.
template <int kSize>
void CheckCover(int64_t pixels, int64_t channels) {
  const ColumnShape shape = ColumnsOf<kSize>(pixels, channels, kMaxSumBlocks);
  const std::string text = absl::StrCat(pixels, " x ", channels, " by ", kSize);
  ASSERT_LE(shape.strips * shape.tiles, std::max(kMaxSumBlocks, shape.tiles)) << text;
  ASSERT_GE(shape.strips * shape.strip_pixels, pixels) << text;
  ASSERT_LT((shape.strips - 1) * shape.strip_pixels, std::max<int64_t>(pixels, 1)) << text;
  ASSERT_LE(static_cast<size_t>(shape.strips * (kMaxRecords * channels + 1)) * sizeof(float),
            ColumnScratchBytes(channels))
      << text;
  int64_t covered = 0;
  for (const unsigned block : {0u, shape.blocks() - 1}) {
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      blockIdx.x = block;
      threadIdx.x = thread;
      const ColumnThread<kSize> at(shape);
      ASSERT_EQ(at.begin - at.strip_begin, at.row) << text;
      ASSERT_LE(at.end, pixels) << text;
      ASSERT_EQ(at.channel, at.tile_channel + at.lane * kSize) << text;
      if (at.lane > 0 || at.begin >= at.end) continue;
      covered += (at.end - at.begin + kRows<kSize> - 1) / kRows<kSize>;
    }
  }
  const int64_t last = pixels - (shape.strips - 1) * shape.strip_pixels;
  const int64_t first = std::min(shape.strip_pixels, pixels);
  ASSERT_EQ(covered, first + last) << text;
}

TEST(ColumnsTest, StripsCoverEveryPixelOnce) {
  for (const int64_t pixels : {int64_t{1}, int64_t{31}, int64_t{257}, int64_t{802816}, kHuge}) {
    for (const int64_t channels : {1, 3, 8, 64, 130, 2048, 100000}) {
      CheckCover<1>(pixels, channels);
      CheckCover<4>(pixels, channels);
      CheckCover<8>(pixels, channels);
    }
  }
}

class ColumnSumsTest : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Types, ColumnSumsTest, testing::ValuesIn(kFloatTypes),
                         [](const auto& type) { return std::string(Name(type.param)); });

TEST_P(ColumnSumsTest, SumsAreThoseOfTheChannels) {
  for (const int64_t channels : {1, 3, 8, 33, 64, 130, 260}) {
    for (const int64_t pixels : {1, 5, 300, 1500}) {
      for (const bool has_factor : {false, true}) {
        const bool is_aligned = pixels != 5;
        const auto count = static_cast<size_t>(pixels * channels);
        const KernelTensor from(GetParam(), DrawnValues(count, 1), is_aligned);
        KernelTensor sums(DType::kF32, static_cast<size_t>(channels));
        KernelTensor scratch(DType::kU8, HostKernels().scratch_bytes(pixels, channels));
        const float factor = 0.125;
        std::vector<double> expected(sums.count(), 0);
        for (size_t i = 0; i < count; ++i) {
          expected[i % sums.count()] += from.at(i) * (has_factor ? factor : 1);
        }
        ASSERT_TRUE(HostKernels()
                        .column_sums(nullptr, {.type = GetParam(),
                                               .from = from.data(),
                                               .pixels = pixels,
                                               .channels = channels,
                                               .sums = sums.as<float>(),
                                               .factor = has_factor ? &factor : nullptr,
                                               .scratch = scratch.data()})
                        .ok());
        // Roundings of partial sums in float32.
        ExpectNear(sums, expected, 64 * 0x1p-24 * std::sqrt(static_cast<double>(pixels)),
                   absl::StrCat(pixels, " x ", channels));
      }
    }
  }
}

TEST(DividerTest, QuotientsAreThoseOfDivisions) {
  constexpr int64_t kMost = INT32_MAX;
  for (const int64_t by : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{112},
                           int64_t{12544}, int64_t{641}, kMost / 2, kMost - 1, kMost}) {
    const on_host::Divider divider(by);
    for (int64_t quotient = 0; quotient <= kMost / by; quotient += 1 + kMost / by / 1000) {
      for (const int64_t value : {quotient * by - 1, quotient * by, quotient * by + 1, kMost}) {
        if (value < 0 || value > kMost) continue;
        ASSERT_EQ(divider.Divide(static_cast<int>(value)), value / by) << value << " / " << by;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::trainer::cuda
