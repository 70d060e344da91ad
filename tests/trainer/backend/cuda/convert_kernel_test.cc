// Values of every type become those of every other, with normalisation, padding and cropping.

#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/backend/cuda/kernel_tensor.h"
#include "trainer/backend/input_values.h"

namespace millrace::trainer::cuda {
namespace {

constexpr DType kSources[] = {DType::kU8,  DType::kI32,  DType::kI64,
                              DType::kF16, DType::kBF16, DType::kF32};

struct ConvertCase {
  DType from = DType::kF32;
  DType to = DType::kF32;
  int64_t from_channels = 1;
  int64_t to_channels = 1;
  int64_t pixels = 1;
  bool has_numbers = false;  // true with scale, shift and factor
  bool is_aligned = true;

  std::string Text() const {
    return absl::StrCat(ToAbsl(Name(from)), " ", from_channels, " to ", ToAbsl(Name(to)), " ",
                        to_channels, ", pixels ", pixels, has_numbers ? ", scaled" : "",
                        is_aligned ? "" : ", not aligned");
  }
};

void Check(const ConvertCase& test) {
  const auto from_count = static_cast<size_t>(test.pixels * test.from_channels);
  const auto to_count = static_cast<size_t>(test.pixels * test.to_channels);
  const KernelTensor from(test.from, DrawnValues(from_count, 1, 0, 200), test.is_aligned);
  KernelTensor to(test.to, std::vector<double>(to_count, 77), test.is_aligned);
  const auto channels = static_cast<size_t>(test.from_channels);
  KernelTensor scale(DType::kF32, DrawnValues(channels, 2));
  KernelTensor shift(DType::kF32, DrawnValues(channels, 3));
  const float factor = 0.75;
  ConvertArgs args = {.from = from.data(),
                      .from_type = test.from,
                      .from_channels = test.from_channels,
                      .to = to.data(),
                      .to_type = test.to,
                      .to_channels = test.to_channels,
                      .pixels = test.pixels};
  if (test.has_numbers) {
    args.scale = scale.as<float>();
    args.shift = shift.as<float>();
    args.factor = &factor;
  }
  std::vector<double> expected(to_count, 0);
  for (size_t i = 0; i < to_count; ++i) {
    const size_t pixel = i / static_cast<size_t>(test.to_channels);
    const size_t c = i % static_cast<size_t>(test.to_channels);
    if (c >= channels) continue;
    const double value = from.at(pixel * channels + c);
    expected[i] = test.has_numbers ? (value * scale.at(c) + shift.at(c)) * 0.75 : value;
  }
  ASSERT_TRUE(HostKernels().convert(nullptr, args).ok()) << test.Text();
  // Up to three roundings in float32 of numbers of at most 500.
  ExpectNear(to, expected, 500 * 3 * 0x1p-24, test.Text());
}

TEST(ConvertKernelTest, EveryTypeBecomesEveryOther) {
  for (const DType from : kSources) {
    for (const DType to : kFloatTypes) {
      for (const auto& [from_channels, to_channels] : std::vector<std::pair<int64_t, int64_t>>{
               {3, 4}, {3, 8}, {3, 3}, {8, 3}, {1, 1}, {5, 5}, {33, 40}, {130, 130}, {16, 16}}) {
        for (const bool has_numbers : {false, true}) {
          Check({from, to, from_channels, to_channels, 13, has_numbers, true});
          Check({from, to, from_channels, to_channels, 13, has_numbers, false});
        }
      }
      Check({from, to, 4, 4, 1, true, true});
      Check({from, to, 1, 1, 5000, false, true});
    }
  }
}

// As the CPU backend reads a batch's field, to the bit.
TEST(ConvertKernelTest, ABatchIsReadAsTheCpuDoes) {
  ModelInput input;
  input.mean = {123.7, 116.3, 103.5};
  input.stddev = {58.4, 57.1, 57.4};
  KernelTensor scale(DType::kF32, 3);
  KernelTensor shift(DType::kF32, 3);
  for (size_t c = 0; c < 3; ++c) {
    scale.Set(c, 1 / input.stddev[c]);
    shift.Set(c, -input.mean[c] / input.stddev[c]);
  }
  for (const DType type : kSources) {
    input.dtype = type;
    KernelTensor field(type, DrawnValues(5 * 7 * 3, 4, 0, 256));
    std::vector<float> expected(field.count());
    ReadInput(input, {field.data(), type, Shape{5, 7, 3}}, expected);
    KernelTensor to(DType::kF32, field.count());
    ConvertArgs args = {.from = field.data(),
                        .from_type = type,
                        .from_channels = 3,
                        .to = to.data(),
                        .to_channels = 3,
                        .pixels = 35};
    if (type == DType::kU8) {
      args.scale = scale.as<float>();
      args.shift = shift.as<float>();
    }
    ASSERT_TRUE(HostKernels().convert(nullptr, args).ok());
    EXPECT_EQ(to.values(), std::vector<double>(expected.begin(), expected.end()))
        << ToAbsl(Name(type));
  }
}

TEST(ConvertKernelTest, ItWorksInPlace) {
  for (const DType type : kFloatTypes) {
    KernelTensor values(type, DrawnValues(3 * 50, 5));
    std::vector<double> expected = values.values();
    for (double& value : expected) value *= 0.5;
    const float factor = 0.5;
    ASSERT_TRUE(HostKernels()
                    .convert(nullptr, {.from = values.data(),
                                       .from_type = type,
                                       .from_channels = 3,
                                       .to = values.data(),
                                       .to_type = type,
                                       .to_channels = 3,
                                       .pixels = 50,
                                       .factor = &factor})
                    .ok());
    EXPECT_EQ(values.values(), expected);
  }
}

TEST(ConvertKernelTest, NothingAndAWrongTypeAreAnswered) {
  EXPECT_TRUE(HostKernels().convert(nullptr, {.pixels = 0}).ok());
  const absl::Status status = HostKernels().convert(nullptr, {.to_type = DType::kF64, .pixels = 1});
  EXPECT_EQ(status, absl::InvalidArgumentError("no kernel computes in float64"));
}

}  // namespace
}  // namespace millrace::trainer::cuda
