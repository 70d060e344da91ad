// Activations, sums, products and slices against float64.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/backend/cuda/kernel_tensor.h"

namespace millrace::trainer::cuda {
namespace {

constexpr LayerKind kActivations[] = {LayerKind::kRelu,    LayerKind::kRelu6, LayerKind::kLeakyRelu,
                                      LayerKind::kSigmoid, LayerKind::kTanh,  LayerKind::kSilu,
                                      LayerKind::kAdd};
constexpr double kSlope = 0.125;

double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }

double ActivationOf(LayerKind kind, double x, double slope) {
  switch (kind) {
    case LayerKind::kRelu:
      return std::max(x, 0.0);
    case LayerKind::kRelu6:
      return std::clamp(x, 0.0, 6.0);
    case LayerKind::kLeakyRelu:
      return x > 0 ? x : slope * x;
    case LayerKind::kSigmoid:
      return SigmoidOf(x);
    case LayerKind::kTanh:
      return std::tanh(x);
    case LayerKind::kSilu:
      return x * SigmoidOf(x);
    default:
      return x;
  }
}

// By the rounded output y, as the kernels have it, of the input x.
double DerivativeOf(LayerKind kind, double x, double y, double slope) {
  switch (kind) {
    case LayerKind::kRelu:
      return x > 0 ? 1 : 0;
    case LayerKind::kRelu6:
      return x > 0 && y < 6 ? 1 : 0;
    case LayerKind::kLeakyRelu:
      return x > 0 ? 1 : slope;
    case LayerKind::kSigmoid:
      return y * (1 - y);
    case LayerKind::kTanh:
      return 1 - y * y;
    case LayerKind::kSilu:
      return SigmoidOf(x) * (1 + x * (1 - SigmoidOf(x)));
    default:
      return 1;
  }
}

// Values of all sizes: near zero, where a quotient of differences would lose its bits, and where
// functions are flat.
std::vector<double> ManyValues(size_t count) {
  std::vector<double> values = DrawnValues(count, 1, -9, 9);
  for (size_t i = 0; i < count; i += 3) values[i] *= std::pow(2.0, -static_cast<double>(i % 20));
  return values;
}

struct Sizes {
  int64_t pixels;
  int64_t channels;
  bool is_aligned;
};
constexpr Sizes kSizes[] = {{1, 1, true},   {7, 3, true},   {13, 5, false},
                            {9, 33, true},  {11, 64, true}, {11, 64, false},
                            {5, 130, true}, {1, 8, true},   {300, 64, true}};

class ElementwiseKernelsTest : public testing::TestWithParam<DType> {
 protected:
  static std::string Text(const Sizes& sizes) {
    return absl::StrCat(sizes.pixels, " x ", sizes.channels, sizes.is_aligned ? "" : ", off");
  }
  static KernelTensor Tensor(const Sizes& sizes, const std::vector<double>& values) {
    return {GetParam(), values, sizes.is_aligned};
  }
  static size_t CountOf(const Sizes& sizes) {
    return static_cast<size_t>(sizes.pixels * sizes.channels);
  }
};

INSTANTIATE_TEST_SUITE_P(Types, ElementwiseKernelsTest, testing::ValuesIn(kFloatTypes),
                         [](const auto& type) { return std::string(Name(type.param)); });

TEST_P(ElementwiseKernelsTest, ActivationsAreThoseOfTheirFormulas) {
  for (const Sizes& sizes : kSizes) {
    for (const LayerKind kind : kActivations) {
      for (const bool has_bias : {false, true}) {
        const KernelTensor from = Tensor(sizes, ManyValues(CountOf(sizes)));
        KernelTensor to(GetParam(), CountOf(sizes), sizes.is_aligned);
        KernelTensor bias(DType::kF32, DrawnValues(static_cast<size_t>(sizes.channels), 2));
        ActivationArgs args = {.kind = kind,
                               .slope = kSlope,
                               .type = GetParam(),
                               .from = from.data(),
                               .to = to.data(),
                               .pixels = sizes.pixels,
                               .channels = sizes.channels};
        if (has_bias) args.bias = bias.as<float>();
        ASSERT_TRUE(HostKernels().activate(nullptr, args).ok());
        std::vector<double> expected = from.values();
        for (size_t i = 0; i < expected.size(); ++i) {
          // The sum with the bias is rounded to float32 first.
          const float x = static_cast<float>(expected[i]) +
                          (has_bias ? static_cast<float>(bias.at(i % bias.count())) : 0.0f);
          expected[i] = ActivationOf(kind, x, kSlope);
          // A few units of float32's last place, for the functions.
          ASSERT_NEAR(to.at(i), expected[i],
                      (UnitOf(GetParam()) + 6 * 0x1p-24) * std::abs(expected[i]) + 0x1p-25)
              << KindName(kind) << " of " << x << ", " << Text(sizes);
        }
      }
    }
  }
}

TEST_P(ElementwiseKernelsTest, GradientsOfActivationsAreTheirDerivatives) {
  for (const Sizes& sizes : kSizes) {
    for (const LayerKind kind : kActivations) {
      for (const double slope : {kSlope, -0.5}) {
        for (const bool accumulates : {false, true}) {
          const KernelTensor input = Tensor(sizes, ManyValues(CountOf(sizes)));
          KernelTensor output = input;
          for (size_t i = 0; i < input.count(); ++i) {
            output.Set(i, ActivationOf(kind, input.at(i), slope));
          }
          const KernelTensor gradient = Tensor(sizes, DrawnValues(CountOf(sizes), 3));
          KernelTensor to = Tensor(sizes, DrawnValues(CountOf(sizes), 4));
          std::vector<double> expected = to.values();
          for (size_t i = 0; i < expected.size(); ++i) {
            const double derivative =
                DerivativeOf(kind, input.at(i), output.at(i), slope) * gradient.at(i);
            expected[i] = (accumulates ? expected[i] : 0) + derivative;
          }
          // Only a SiLU, or a leaky ReLU whose sign may change, needs its input.
          const bool needs_input =
              kind == LayerKind::kSilu || (kind == LayerKind::kLeakyRelu && slope < 0);
          const ActivationBackwardArgs args = {.kind = kind,
                                               .slope = static_cast<float>(slope),
                                               .type = GetParam(),
                                               .input = needs_input ? input.data() : nullptr,
                                               .output = needs_input ? nullptr : output.data(),
                                               .gradient = gradient.data(),
                                               .to = to.data(),
                                               .count = static_cast<int64_t>(CountOf(sizes)),
                                               .accumulates = accumulates};
          ASSERT_TRUE(HostKernels().activate_backward(nullptr, args).ok());
          ExpectNear(to, expected, 8 * 0x1p-22, absl::StrCat(KindName(kind), " ", Text(sizes)));
        }
      }
    }
  }
}

TEST_P(ElementwiseKernelsTest, ANotANumberStaysOne) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const LayerKind kind : kActivations) {
    KernelTensor values(GetParam(), {nan, 1});
    ASSERT_TRUE(HostKernels()
                    .activate(nullptr, {.kind = kind,
                                        .slope = 0.5,
                                        .type = GetParam(),
                                        .from = values.data(),
                                        .to = values.data(),
                                        .pixels = 2})
                    .ok());
    EXPECT_TRUE(std::isnan(values.at(0))) << KindName(kind);
    EXPECT_FALSE(std::isnan(values.at(1))) << KindName(kind);
  }
}

TEST_P(ElementwiseKernelsTest, InfinitiesHaveLimits) {
  const double infinite = std::numeric_limits<double>::infinity();
  const auto limits = [&](LayerKind kind) {
    KernelTensor values(GetParam(), {infinite, -infinite});
    EXPECT_TRUE(HostKernels()
                    .activate(nullptr, {.kind = kind,
                                        .type = GetParam(),
                                        .from = values.data(),
                                        .to = values.data(),
                                        .pixels = 2})
                    .ok());
    return values.values();
  };
  EXPECT_EQ(limits(LayerKind::kSigmoid), (std::vector<double>{1, 0}));
  EXPECT_EQ(limits(LayerKind::kTanh), (std::vector<double>{1, -1}));
  EXPECT_EQ(limits(LayerKind::kRelu6), (std::vector<double>{6, 0}));
}

TEST_P(ElementwiseKernelsTest, ValuesAreAddedMultipliedAndCopied) {
  for (const Sizes& sizes : kSizes) {
    for (const int operation : {0, 1, 2}) {
      for (const bool accumulates : {false, true}) {
        const KernelTensor a = Tensor(sizes, DrawnValues(CountOf(sizes), 5));
        const KernelTensor b = Tensor(sizes, DrawnValues(CountOf(sizes), 6));
        KernelTensor to = Tensor(sizes, DrawnValues(CountOf(sizes), 7));
        std::vector<double> expected = to.values();
        for (size_t i = 0; i < expected.size(); ++i) {
          const double value = operation == 0   ? a.at(i) + b.at(i)
                               : operation == 1 ? a.at(i) * b.at(i)
                                                : a.at(i);
          expected[i] = (accumulates ? expected[i] : 0) + value;
        }
        const BinaryArgs args = {.multiplies = operation == 1,
                                 .type = GetParam(),
                                 .a = a.data(),
                                 .b = operation == 2 ? nullptr : b.data(),
                                 .to = to.data(),
                                 .count = static_cast<int64_t>(CountOf(sizes)),
                                 .accumulates = accumulates};
        ASSERT_TRUE(HostKernels().binary(nullptr, args).ok());
        ExpectNear(to, expected, 8 * 0x1p-24, Text(sizes));
      }
    }
  }
}

TEST_P(ElementwiseKernelsTest, ASumMayReplaceItsFirstTerm) {
  KernelTensor a(GetParam(), DrawnValues(77, 8));
  const KernelTensor b(GetParam(), DrawnValues(77, 9));
  std::vector<double> expected = a.values();
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += b.at(i);
  ASSERT_TRUE(
      HostKernels()
          .binary(nullptr,
                  {.type = GetParam(), .a = a.data(), .b = b.data(), .to = a.data(), .count = 77})
          .ok());
  ExpectNear(a, expected, 4 * 0x1p-24, "in place");
}

TEST_P(ElementwiseKernelsTest, SlicesMoveAndTouchNothingElse) {
  struct SliceCase {
    int64_t from_width, from_begin, to_width, to_begin, width, rows;
  };
  for (const SliceCase& test : std::vector<SliceCase>{{5, 1, 7, 3, 3, 4},
                                                      {64, 16, 96, 32, 48, 3},
                                                      {64, 16, 96, 30, 48, 3},
                                                      {1, 0, 2, 1, 1, 300},
                                                      {8, 0, 8, 0, 8, 1}}) {
    for (const bool accumulates : {false, true}) {
      const auto from_count = static_cast<size_t>(test.from_width * test.rows);
      const auto to_count = static_cast<size_t>(test.to_width * test.rows);
      const KernelTensor from(GetParam(), DrawnValues(from_count, 10));
      KernelTensor to(GetParam(), DrawnValues(to_count, 11));
      std::vector<double> expected = to.values();
      for (int64_t r = 0; r < test.rows; ++r) {
        for (int64_t k = 0; k < test.width; ++k) {
          double& value = expected[static_cast<size_t>(r * test.to_width + test.to_begin + k)];
          value = (accumulates ? value : 0) +
                  from.at(static_cast<size_t>(r * test.from_width + test.from_begin + k));
        }
      }
      ASSERT_TRUE(HostKernels()
                      .slice(nullptr, {.type = GetParam(),
                                       .from = from.data(),
                                       .from_width = test.from_width,
                                       .from_begin = test.from_begin,
                                       .to = to.data(),
                                       .to_width = test.to_width,
                                       .to_begin = test.to_begin,
                                       .width = test.width,
                                       .rows = test.rows,
                                       .accumulates = accumulates})
                      .ok());
      ExpectNear(to, expected, 4 * 0x1p-24, absl::StrCat(test.from_width));
    }
  }
}

}  // namespace
}  // namespace millrace::trainer::cuda
