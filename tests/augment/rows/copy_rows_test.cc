#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "augment/field/convert.h"
#include "augment/geometry_ops.h"
#include "augment/rows/copy.h"
#include "augment/rows/kernels.h"
#include "tests/augment/fixtures.h"

// Every level against a loop that says what a kernel does, for every length about its vectors, in
// memory of exact sizes.

namespace millrace::augment {
namespace {

using testing::ApplyTo;
using testing::Value;

class CopiesAtEveryLevel : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { UseRowKernelLevel(GetParam()); }
  void TearDown() override { UseRowKernelLevel(0); }

  template <typename T>
  std::vector<T> Any(size_t count) {
    std::vector<T> values(count);
    for (T& value : values) value = static_cast<T>(random_());
    return values;
  }

  std::mt19937 random_{1};
};

TEST_P(CopiesAtEveryLevel, MirrorRowOfPixelsOfAnySize) {
  for (size_t pixel = 0; pixel <= 40; ++pixel) {
    for (size_t width = 0; width <= 70; ++width) {
      const size_t offset = width % 3;  // unaligned
      const auto in = Any<std::byte>(offset + width * pixel);
      std::vector<std::byte> out(width * pixel);
      MirrorRow(in.data() + offset, static_cast<int64_t>(width), pixel, out.data());
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(out[i], in[offset + (width - 1 - i / pixel) * pixel + i % pixel])
            << width << " pixels of " << pixel;
      }
    }
  }
}

template <typename T>
void ExpectMoved(const std::vector<T>& in, int64_t pixels) {
  std::vector<T> planes(in.size()), back(in.size()), padded(static_cast<size_t>(4 * pixels));
  SplitRow3(in.data(), pixels, pixels, sizeof(T), planes.data());
  for (int64_t i = 0; i < 3 * pixels; ++i) {
    ASSERT_EQ(planes[i], in[i % pixels * 3 + i / pixels]) << pixels;
  }
  JoinRow3(planes.data(), pixels, pixels, sizeof(T), back.data());
  ASSERT_EQ(back, in) << pixels;
  const T value{77};
  AppendChannels(std::as_bytes(std::span(in)).data(), pixels, 3 * sizeof(T), sizeof(T),
                 std::as_bytes(std::span(&value, 1)),
                 std::as_writable_bytes(std::span(padded)).data());
  for (int64_t i = 0; i < 4 * pixels; ++i) {
    ASSERT_EQ(padded[i], i % 4 == 3 ? value : in[i / 4 * 3 + i % 4]) << pixels;
  }
}

TEST_P(CopiesAtEveryLevel, PlanesAndPadding) {
  for (int64_t pixels = 0; pixels < 200; ++pixels) {
    const auto count = static_cast<size_t>(3 * pixels);
    ExpectMoved(Any<uint8_t>(count), pixels);
    ExpectMoved(Any<uint16_t>(count), pixels);
    ExpectMoved(Any<uint32_t>(count), pixels);
  }
}

TEST_P(CopiesAtEveryLevel, StreamRowCopiesAlignedOrNot) {
  alignas(64) uint8_t out[512];
  const auto in = Any<uint8_t>(256);
  for (const size_t offset : {size_t{0}, size_t{4}, size_t{32}, size_t{64}}) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{64}, size_t{96}, size_t{256}}) {
      std::memset(out, 7, sizeof out);
      StreamRow(in.data(), bytes, out + offset);
      EndStreaming();
      EXPECT_EQ(std::memcmp(out + offset, in.data(), bytes), 0);
      EXPECT_EQ(out[offset + bytes], 7);
    }
  }
}

// Each value of the output from where the permutation says, of every size of values.
TEST_P(CopiesAtEveryLevel, TransposeByEveryPermutation) {
  std::vector<int64_t> perm = {0, 1, 2};
  do {
    for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kI64}) {
      for (const Shape& shape : {Shape{7, 11, 3}, Shape{3, 13, 9}, Shape{5, 6, 1}, Shape{4, 3, 4},
                                 Shape{1, 70, 3}, Shape{3, 1, 41}}) {
        const size_t size = SizeOf(dtype);
        const Value in{dtype, shape, Any<std::byte>(shape.num_elements() * size)};
        const Value out = ApplyTo(MakeTranspose({.perm = perm}), in);
        const int64_t strides[] = {shape[1] * shape[2], shape[2], 1};
        ASSERT_EQ(out.bytes.size(), in.bytes.size());
        size_t to = 0;
        for (int64_t i = 0; i < shape[static_cast<int>(perm[0])]; ++i) {
          for (int64_t j = 0; j < shape[static_cast<int>(perm[1])]; ++j) {
            for (int64_t k = 0; k < shape[static_cast<int>(perm[2])]; ++k, to += size) {
              const auto from = static_cast<size_t>(i * strides[perm[0]] + j * strides[perm[1]] +
                                                    k * strides[perm[2]]) *
                                size;
              ASSERT_EQ(std::memcmp(&out.bytes[to], &in.bytes[from], size), 0)
                  << shape.ToString() << " by " << perm[0] << perm[1] << perm[2];
            }
          }
        }
      }
    }
  } while (std::ranges::next_permutation(perm).found);
}

TEST_P(CopiesAtEveryLevel, PadChannelsOfEverySizeOfValues) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kBF16, DType::kF32, DType::kI64}) {
    std::vector<std::byte> seven(SizeOf(dtype));
    ConvertFloat(7, dtype, seven.data());
    for (const int64_t channels : {1, 2, 3}) {
      const size_t old = static_cast<size_t>(channels) * SizeOf(dtype);
      const Value in{dtype, {5, 17, channels}, Any<std::byte>(5 * 17 * old)};
      const Value out = ApplyTo(MakePadChannels({.channels = 4, .value = 7}), in);
      const size_t pixel = 4 * SizeOf(dtype);
      ASSERT_EQ(out.bytes.size(), 5 * 17 * pixel);
      for (size_t i = 0; i < 5 * 17; ++i) {
        ASSERT_EQ(std::memcmp(&out.bytes[i * pixel], &in.bytes[i * old], old), 0) << i;
        for (size_t j = old; j < pixel; ++j) {
          ASSERT_EQ(out.bytes[i * pixel + j], seven[j % seven.size()]) << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, CopiesAtEveryLevel, ::testing::ValuesIn(RowKernelLevels()),
                         [](const auto& test) { return RowKernelLevelName(test.param); });

}  // namespace
}  // namespace millrace::augment
