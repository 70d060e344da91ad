// Dropout's factors are those of the CPU's random numbers.

#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/philox_words.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/backend/cuda/kernel_tensor.h"

namespace millrace::trainer::cuda {
namespace {

// As trainer/backend/onednn/dropout_layer.cc draws them.
std::vector<double> FactorsOf(const StepValues& step, const std::string& layer, double rate,
                              const std::vector<SampleId>& ids, size_t row_values) {
  const auto kept = static_cast<float>(1 / (1 - rate));
  std::vector<double> factors;
  for (const SampleId& id : ids) {
    RandomKey key;
    key.seed = Mix64(step.seed ^ Mix64(step.step));
    key.op = HashName(layer);
    key.epoch = id.epoch;
    key.record = id.record;
    key.sub_index = id.sub_index;
    RandomStream stream(key);
    for (size_t i = 0; i < row_values; ++i) factors.push_back(stream.NextFloat() < rate ? 0 : kept);
  }
  return factors;
}

class DropoutKernelTest : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Types, DropoutKernelTest, testing::ValuesIn(kFloatTypes),
                         [](const auto& type) { return std::string(Name(type.param)); });

TEST_P(DropoutKernelTest, FactorsAreTheCpusToTheBit) {
  const std::vector<SampleId> ids = {
      {0, 0, 0}, {3, (uint64_t{5} << 32) + 11, 2}, {1, 7, uint64_t{1} << 20}, {0, 8, 0}};
  const StepValues step = {.seed = 12345, .step = 678};
  for (const size_t row_values : {1u, 3u, 4u, 5u, 8u, 33u, 130u, 1000u}) {
    for (const double rate : {0.0, 0.1, 0.5, 0.3, 0.999}) {
      for (const bool is_aligned : {true, false}) {
        const KernelTensor ones(GetParam(), std::vector<double>(4 * row_values, 1), is_aligned);
        KernelTensor to(GetParam(), ones.count(), is_aligned);
        const DropoutArgs args = {.type = GetParam(),
                                  .batch = {.rows = 4, .ids = ids.data(), .step = &step},
                                  .row_values = static_cast<int64_t>(row_values),
                                  .rate = rate,
                                  .layer = HashName("drop"),
                                  .from = ones.data(),
                                  .to = to.data()};
        ASSERT_TRUE(HostKernels().dropout(nullptr, args).ok());
        const std::vector<double> factors = FactorsOf(step, "drop", rate, ids, row_values);
        const KernelTensor expected(GetParam(), factors, is_aligned);
        EXPECT_EQ(to.bytes(), expected.bytes()) << row_values << " " << rate;
      }
    }
  }
}

// A value whose random number is the rate is kept.
TEST_P(DropoutKernelTest, TheRateItselfIsNotBelowIt) {
  const StepValues step = {.seed = 5};
  RandomKey key;
  key.seed = Mix64(step.seed ^ Mix64(step.step));
  key.op = HashName("d");
  const double number = RandomStream(key).NextFloat();
  ASSERT_GT(number, 0);
  for (const double rate : {number, number + 0x1p-40}) {
    const KernelTensor one(GetParam(), std::vector<double>{1});
    KernelTensor to(GetParam(), 1);
    ASSERT_TRUE(HostKernels()
                    .dropout(nullptr, {.type = GetParam(),
                                       .batch = {.rows = 1, .step = &step},
                                       .rate = rate,
                                       .layer = key.op,
                                       .from = one.data(),
                                       .to = to.data()})
                    .ok());
    EXPECT_EQ(to.at(0) > 0, rate == number);
  }
}

TEST_P(DropoutKernelTest, ValuesAreMultipliedAndMayBeAdded) {
  const StepValues step = {.seed = 1, .step = 2};
  const std::vector<SampleId> ids = {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}};
  for (const size_t row_values : {7u, 64u}) {
    for (const bool accumulates : {false, true}) {
      const KernelTensor from(GetParam(), DrawnValues(3 * row_values, 1));
      KernelTensor to(GetParam(), DrawnValues(3 * row_values, 2));
      std::vector<double> expected = FactorsOf(step, "d", 0.25, ids, row_values);
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] = (accumulates ? to.at(i) : 0) + expected[i] * from.at(i);
      }
      // Without ids rows are records 0, 1, ...
      ASSERT_TRUE(HostKernels()
                      .dropout(nullptr, {.type = GetParam(),
                                         .batch = {.rows = 3, .step = &step},
                                         .row_values = static_cast<int64_t>(row_values),
                                         .rate = 0.25,
                                         .layer = HashName("d"),
                                         .from = from.data(),
                                         .to = to.data(),
                                         .accumulates = accumulates})
                      .ok());
      ExpectNear(to, expected, 8 * 0x1p-24, absl::StrCat(row_values));
    }
  }
}

// Known answers of Philox4x32-10, at compile time.
TEST(PhiloxWordsTest, WordsAreConstantExpressions) {
  constexpr PhiloxBlock kZeros = {};
  static_assert(kZeros.Words()[0] == 0x6627e8d5 && kZeros.Words()[3] == 0x9b00dbd8);
  constexpr PhiloxBlock kFirst = FirstBlock({.seed = 3, .record = 9});
  RandomStream stream({.seed = 3, .record = 9});
  for (const uint32_t word : kFirst.Words()) EXPECT_EQ(stream.NextU32(), word);
}

}  // namespace
}  // namespace millrace::trainer::cuda
