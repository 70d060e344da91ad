// The kernels of every set of instructions give the bits of plain loops.
#include "collectives/core/sum_kernels.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/half.h"
#include "collectives/core/reduce.h"
#include "gtest/gtest.h"

namespace millrace::collectives {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
constexpr size_t kCounts[] = {0, 1, 15, 16, 31, 64, 127, 2047, 2048, 2049, 5003};

using Words = std::vector<uint32_t>;  // memory for `count` elements of any type

float ElementAt(DType dtype, const Words& words, size_t i) {
  const auto* const halves = reinterpret_cast<const uint16_t*>(words.data());
  if (dtype == DType::kF16) return ToFloat(Half{halves[i]});
  if (dtype == DType::kBF16) return ToFloat(BFloat{halves[i]});
  return std::bit_cast<float>(words[i]);
}

uint32_t BitsAt(DType dtype, const Words& words, size_t i) {
  return dtype == DType::kF32 ? words[i] : reinterpret_cast<const uint16_t*>(words.data())[i];
}

// Random bits, so subnormals, infinities and NaN are there too, and runs of what real gradients
// are.
Words RandomWords(DType dtype, size_t count, std::mt19937& random) {
  Words words(count + 16);
  std::normal_distribution<float> normal(0, 0.01f);
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<uint32_t>(random());
    if (dtype == DType::kF32 && i % 3 != 0) words[i] = std::bit_cast<uint32_t>(normal(random));
  }
  return words;
}

// The oracle: reduce_internal's loops.
Words SumPlainly(DType dtype, const std::vector<Words>& in, size_t count, float divisor) {
  std::vector<float> sum(count + 1);
  Words out(count + 16);
  BeginReduction(dtype, sum.data(), in[0].data(), count);
  for (size_t r = 1; r < in.size(); ++r) {
    Accumulate(dtype, ReduceOp::kSum, sum.data(), in[r].data(), count);
  }
  if (divisor != 1) {
    for (float& value : sum) value /= divisor;
  }
  EndReduction(dtype, ReduceOp::kSum, 1, sum.data(), out.data(), count);
  return out;
}

void ExpectSameBits(DType dtype, const Words& got, const Words& wanted, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (std::isnan(ElementAt(dtype, wanted, i))) {
      ASSERT_TRUE(std::isnan(ElementAt(dtype, got, i))) << i;
    } else {
      ASSERT_EQ(BitsAt(dtype, got, i), BitsAt(dtype, wanted, i)) << i;
    }
  }
}

class SumKernels : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { UseSumKernelLevel(GetParam()); }
  void TearDown() override { UseSumKernelLevel(0); }
};

TEST_P(SumKernels, SumsHaveTheBitsOfPlainLoopsInEveryCopy) {
  std::mt19937 random(7);
  for (const DType dtype : kTypes) {
    for (const size_t count : kCounts) {
      for (const size_t ranks : {1, 2, 3, 5}) {
        for (const float divisor : {1.0f, 7.0f}) {
          std::vector<Words> copies;
          for (size_t r = 0; r < ranks; ++r) copies.push_back(RandomWords(dtype, count, random));
          const Words wanted = SumPlainly(dtype, copies, count, divisor);
          std::vector<const void*> in;
          std::vector<void*> out;
          for (Words& copy : copies) {
            in.push_back(copy.data());
            out.push_back(copy.data());
          }
          SumAndStore(dtype, in, out, count, divisor);
          for (const Words& copy : copies) ExpectSameBits(dtype, copy, wanted, count);
        }
      }
    }
  }
}

TEST_P(SumKernels, NothingIsWrittenBehindTheEnd) {
  for (const DType dtype : kTypes) {
    for (const size_t count : kCounts) {
      std::vector<std::byte> copy(count * SizeOf(dtype) + 64, std::byte{0x5A});
      const void* const in = copy.data();
      void* const out = copy.data();
      SumAndStore(dtype, {&in, 1}, {&out, 1}, count, 3);
      for (size_t i = count * SizeOf(dtype); i < copy.size(); ++i) {
        ASSERT_EQ(copy[i], std::byte{0x5A});
      }
    }
  }
}

// One order of additions for all levels: place i % 16.
TEST_P(SumKernels, SquaresAreAddedInOneOrder) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 1);
  for (const size_t count : kCounts) {
    std::vector<float> a(count), b(count);
    for (float& value : a) value = normal(random);
    for (float& value : b) value = normal(random);
    SquareSums wanted = {};
    for (size_t i = 0; i < count; ++i) {
      const double sum = static_cast<double>(a[i] + b[i]);
      wanted[i % 16] += sum * sum;
    }
    SquareSums got = {};
    const void* const in[] = {a.data(), b.data()};
    void* const out[] = {a.data(), b.data()};
    SumAndStore(DType::kF32, in, out, count, 1, &got);
    EXPECT_EQ(got, wanted) << count;
  }
}

TEST_P(SumKernels, SquaresTellOfOneValueThatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> values(3000, 1.0f);
    values[2999] = bad;
    SquareSums squares = {};
    const void* const in = values.data();
    void* const out = values.data();
    SumAndStore(DType::kF32, {&in, 1}, {&out, 1}, values.size(), 1, &squares);
    double sum = 0;
    for (const double one : squares) sum += one;
    EXPECT_FALSE(std::isfinite(sum));
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, SumKernels, testing::ValuesIn(SumKernelLevels()));

}  // namespace
}  // namespace millrace::collectives
