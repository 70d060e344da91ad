// Kernels that do a batch norm, its ReLU and a max pool in one: the bits of those that do each by
// itself, and plain loops in float64.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/backend/cuda/kernel_tensor.h"

namespace millrace::trainer::cuda {
namespace {

struct NormPoolCase {
  const char* name;
  int64_t height, width;
  Window window;
};

const NormPoolCase kNormPoolCases[] = {
    {"stem", 9, 11, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1, 1, 1}}},
    {"even", 8, 10, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1, 1, 1}}},
    {"two by two", 8, 6, {.kernel = {2, 2}, .stride = {2, 2}}},
    {"gaps", 9, 7, {.kernel = {2, 3}, .stride = {3, 4}}},
    {"one side", 5, 4, {.kernel = {3, 2}, .padding = {2, 0, 0, 1}}},
    {"every pixel", 6, 7, {.kernel = {5, 4}, .padding = {2, 2, 1, 2}}},
    {"of padding alone", 4, 5, {.kernel = {2, 2}, .stride = {2, 2}, .padding = {2, 0, 2, 1}}},
    {"one pixel", 1, 1, {.kernel = {1, 1}}},
    {"global", 7, 5, {.kernel = {7, 5}}},
    {"most places", 17, 18, {.kernel = {16, 16}}}};
constexpr int64_t kNormPoolChannels[] = {1, 3, 8, 33, 64};
constexpr int64_t kNormPoolRows = 3;

int64_t OutExtentOf(const NormPoolCase& test, int axis) {
  const Window& w = test.window;
  const int64_t extent = axis == 0 ? test.height : test.width;
  return (extent + w.padding[2 * axis] + w.padding[2 * axis + 1] - w.kernel[axis]) /
             w.stride[axis] +
         1;
}

PoolArgs PoolSizesOf(const NormPoolCase& test, int64_t channels, DType type) {
  return {.type = type,
          .rows = kNormPoolRows,
          .height = test.height,
          .width = test.width,
          .out_height = OutExtentOf(test, 0),
          .out_width = OutExtentOf(test, 1),
          .channels = channels,
          .window = test.window};
}

// Few different numbers, so that many are equal.
std::vector<double> FewValues(size_t count, unsigned seed) {
  std::vector<double> values = DrawnValues(count, seed, -3, 3);
  for (double& value : values) value = std::floor(value);
  return values;
}

// The tensors of a norm and a pool, with those between them.
struct NormPoolProblem {
  NormPoolProblem(const NormPoolCase& test, int64_t channels_in, DType type, bool is_aligned = true)
      : sizes(PoolSizesOf(test, channels_in, type)),
        channels(static_cast<size_t>(channels_in)),
        in(static_cast<size_t>(kNormPoolRows * sizes.height * sizes.width) * channels),
        out(static_cast<size_t>(kNormPoolRows * sizes.out_height * sizes.out_width) * channels),
        text(absl::StrCat(test.name, " ", channels_in, is_aligned ? "" : ", off")),
        valid(DType::kU8, std::vector<double>{1, 0, 1}),
        x(type, FewValues(in, 1), is_aligned),
        between(type, in, is_aligned),
        between_gradient(type, in, is_aligned),
        dx(type, DrawnValues(in, 2), is_aligned),
        output(type, out, is_aligned),
        places(DType::kU8, out, is_aligned),
        gradient(type, DrawnValues(out, 3), is_aligned),
        weights(DType::kF32, DrawnValues(channels, 4, -1, 2)),
        bias(DType::kF32, DrawnValues(channels, 5)),
        sums(DType::kF64, 1 + 2 * channels),
        moments(DType::kF32, 4 * channels),
        mean(DType::kF32, channels),
        variance(DType::kF32, channels),
        weights_gradient(DType::kF32, channels),
        bias_gradient(DType::kF32, channels),
        scratch(DType::kU8, HostKernels().scratch_bytes(0, channels_in)) {}

  NormArgs Norm() {
    return {.type = sizes.type,
            .batch = {.rows = kNormPoolRows, .valid = valid.as<uint8_t>()},
            .row_pixels = sizes.height * sizes.width,
            .channels = sizes.channels,
            .epsilon = kEpsilon,
            .weights = weights.as<float>(),
            .bias = bias.as<float>(),
            .sums = sums.as<double>(),
            .moments = moments.as<float>(),
            .scratch = scratch.data(),
            .x = x.data(),
            .has_relu = true,
            .mean = mean.as<float>(),
            .variance = variance.as<float>(),
            .dx = dx.data(),
            .accumulates_dx = accumulates,
            .weights_gradient = weights_gradient.as<float>(),
            .bias_gradient = bias_gradient.as<float>()};
  }
  NormPoolArgs Both() {
    NormPoolArgs args{Norm(), sizes};
    args.pool.places = has_places ? places.as<uint8_t>() : nullptr;
    return args;
  }

  void Measure() {
    ASSERT_TRUE(HostKernels().norm_measure(nullptr, Norm()).ok());
    ASSERT_TRUE(HostKernels().norm_moments(nullptr, Norm()).ok());
  }
  void ForwardApart() {
    NormArgs norm = Norm();
    norm.y = between.data();
    ASSERT_TRUE(HostKernels().norm_apply(nullptr, norm).ok());
    PoolArgs pool = Both().pool;
    pool.from = between.data();
    pool.to = output.data();
    ASSERT_TRUE(HostKernels().pool(nullptr, pool).ok());
  }
  void ForwardInOne() {
    NormPoolArgs args = Both();
    args.pool.to = output.data();
    ASSERT_TRUE(HostKernels().norm_pool(nullptr, args).ok());
  }
  void BackwardApart() {
    PoolArgs pool = Both().pool;
    pool.from = gradient.data();
    pool.to = between_gradient.data();
    ASSERT_TRUE(HostKernels().pool_backward(nullptr, pool).ok());
    NormArgs norm = Norm();
    norm.dy = between_gradient.data();
    ASSERT_TRUE(HostKernels().norm_backward_sums(nullptr, norm).ok());
    ASSERT_TRUE(HostKernels().norm_backward_combine(nullptr, norm).ok());
  }
  void BackwardInOne() {
    NormPoolArgs args = Both();
    args.pool.from = gradient.data();
    ASSERT_TRUE(HostKernels().norm_pool_backward_sums(nullptr, args).ok());
    ASSERT_TRUE(HostKernels().norm_pool_backward_combine(nullptr, args).ok());
  }

  // Calls visit(output value, input value, place) for all places that lie in the image, in order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    const Window& w = sizes.window;
    for (size_t i = 0; i < out; ++i) {
      const auto pixel = static_cast<int64_t>(i / channels);
      const int64_t top = pixel / sizes.out_width % sizes.out_height * w.stride[0] - w.padding[0];
      const int64_t left = pixel % sizes.out_width * w.stride[1] - w.padding[2];
      const int64_t row = pixel / (sizes.out_height * sizes.out_width);
      for (int64_t k = 0; k < w.kernel[0] * w.kernel[1]; ++k) {
        const int64_t y = top + k / w.kernel[1];
        const int64_t x_at = left + k % w.kernel[1];
        if (y < 0 || x_at < 0 || y >= sizes.height || x_at >= sizes.width) continue;
        const int64_t source = (row * sizes.height + y) * sizes.width + x_at;
        visit(i, static_cast<size_t>(source) * channels + i % channels, static_cast<size_t>(k));
      }
    }
  }

  static constexpr double kEpsilon = 1e-5;
  PoolArgs sizes;
  size_t channels, in, out;
  std::string text;
  bool accumulates = false;
  bool has_places = true;
  KernelTensor valid;
  KernelTensor x, between, between_gradient, dx, output, places, gradient;
  KernelTensor weights, bias, sums, moments, mean, variance, weights_gradient, bias_gradient;
  KernelTensor scratch;
};

class NormPoolKernelsTest : public testing::TestWithParam<DType> {
 protected:
  template <typename Check>
  static void ForEachProblem(const Check& check) {
    for (const NormPoolCase& test : kNormPoolCases) {
      for (const int64_t channels : kNormPoolChannels) {
        for (const bool is_aligned : {false, true}) {
          check(NormPoolProblem(test, channels, GetParam(), is_aligned));
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Types, NormPoolKernelsTest, testing::ValuesIn(kFloatTypes),
                         [](const auto& type) { return std::string(Name(type.param)); });

TEST_P(NormPoolKernelsTest, BitsAreThoseOfOneAfterTheOther) {
  ForEachProblem([](NormPoolProblem apart) {
    apart.accumulates = apart.channels % 2 == 1;
    NormPoolProblem in_one = apart;
    apart.Measure();
    apart.ForwardApart();
    apart.BackwardApart();
    in_one.Measure();
    in_one.ForwardInOne();
    EXPECT_EQ(in_one.output.bytes(), apart.output.bytes()) << apart.text;
    EXPECT_EQ(in_one.places.bytes(), apart.places.bytes()) << apart.text;
    in_one.BackwardInOne();
    EXPECT_EQ(in_one.sums.bytes(), apart.sums.bytes()) << apart.text;
    EXPECT_EQ(in_one.weights_gradient.bytes(), apart.weights_gradient.bytes()) << apart.text;
    EXPECT_EQ(in_one.bias_gradient.bytes(), apart.bias_gradient.bytes()) << apart.text;
    EXPECT_EQ(in_one.dx.bytes(), apart.dx.bytes()) << apart.text;
  });
}

// Values that are no numbers, infinite ones, and zeros of both signs: a channel whose mean is 0 and
// whose bias is -0 keeps those of x.
TEST_P(NormPoolKernelsTest, AnEvaluationHasTheBitsOfOneAfterTheOther) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> kSpecial = {
      std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, -0.0, 0.0, -1, 1e-7, -1e-7};
  for (const bool has_places : {false, true}) {
    ForEachProblem([&](NormPoolProblem apart) {
      apart.has_places = has_places;
      for (size_t c = 0; c < apart.channels; ++c) {
        apart.mean.Set(c, c % 2 == 0 ? 0 : 0.5);
        apart.variance.Set(c, 1 + static_cast<double>(c));
        if (c % 4 == 0) apart.bias.Set(c, -0.0);
      }
      // The lower the number, the more of one value side by side.
      for (size_t i = 0; i < apart.in; i += 1 + i % 3) {
        const size_t turn = i % 5 == 0 ? i : i / (8 * apart.channels);
        apart.x.Set(i, kSpecial[turn % kSpecial.size()]);
      }
      ASSERT_TRUE(HostKernels().norm_moments_of_running(nullptr, apart.Norm()).ok());
      NormPoolProblem in_one = apart;
      apart.ForwardApart();
      in_one.ForwardInOne();
      EXPECT_EQ(in_one.places.bytes(), apart.places.bytes()) << apart.text;
      for (size_t i = 0; i < apart.out; ++i) {
        const double expected = apart.output.at(i);
        const double value = in_one.output.at(i);
        ASSERT_EQ(std::isnan(value), std::isnan(expected)) << apart.text << " " << i;
        if (std::isnan(expected)) continue;
        ASSERT_EQ(value, expected) << apart.text << " " << i;
        ASSERT_EQ(std::signbit(value), std::signbit(expected)) << apart.text << " " << i;
      }
    });
  }
}

// --- Plain loops in float64 ---

struct NormPoolReference {
  explicit NormPoolReference(const NormPoolProblem& problem)
      : mean(problem.channels), inverse(problem.channels), y(problem.in) {
    const size_t row = problem.in / kNormPoolRows;
    const auto add = [&](std::vector<double>& sums, const auto& term) {
      for (size_t i = 0; i < problem.in; ++i) {
        if (problem.valid.at(i / row) != 0) sums[i % problem.channels] += term(i) / n;
      }
    };
    n = 2.0 * static_cast<double>(row / problem.channels);
    add(mean, [&](size_t i) { return problem.x.at(i); });
    add(inverse, [&](size_t i) { return Square(problem.x.at(i) - mean[i % problem.channels]); });
    for (double& value : inverse) value = 1 / std::sqrt(value + NormPoolProblem::kEpsilon);
    for (size_t i = 0; i < problem.in; ++i) {
      const size_t c = i % problem.channels;
      const double normal = (problem.x.at(i) - mean[c]) * inverse[c];
      y[i] = std::max(0.0, normal * problem.weights.at(c) + problem.bias.at(c));
    }
  }
  static double Square(double value) { return value * value; }

  // dx by the places that the kernel chose.
  std::vector<double> Dx(const NormPoolProblem& problem) const {
    std::vector<double> dz(problem.in);
    problem.ForEach([&](size_t i, size_t source, size_t place) {
      const bool is_maximum = problem.places.at(i) == static_cast<double>(place);
      const bool is_valid = problem.valid.at(source / (problem.in / kNormPoolRows)) != 0;
      if (is_maximum && is_valid && y[source] > 0) dz[source] += problem.gradient.at(i);
    });
    std::vector<double> sum(problem.channels), products(problem.channels), dx(problem.in);
    for (size_t i = 0; i < problem.in; ++i) {
      const size_t c = i % problem.channels;
      sum[c] += dz[i] / n;
      products[c] += dz[i] * (problem.x.at(i) - mean[c]) / n;
    }
    for (size_t i = 0; i < problem.in; ++i) {
      if (problem.valid.at(i / (problem.in / kNormPoolRows)) == 0) continue;
      const size_t c = i % problem.channels;
      const double difference = (problem.x.at(i) - mean[c]) * Square(inverse[c]) * products[c];
      dx[i] = problem.weights.at(c) * inverse[c] * (dz[i] - sum[c] - difference);
    }
    return dx;
  }

  double n = 0;  // valid values of a channel
  std::vector<double> mean, inverse, y;
};

TEST_P(NormPoolKernelsTest, ResultsAreThoseOfPlainLoops) {
  ForEachProblem([](NormPoolProblem problem) {
    if (problem.sizes.height == 1) return;  // all values of a channel may be equal
    problem.Measure();
    problem.ForwardInOne();
    const NormPoolReference expected(problem);
    std::vector<double> output(problem.out), of_place(problem.out);
    problem.ForEach([&](size_t i, size_t source, size_t place) {
      output[i] = std::max(output[i], expected.y[source]);
      if (problem.places.at(i) == static_cast<double>(place)) of_place[i] = expected.y[source];
    });
    ExpectNear(problem.output, output, 0x1p-18, problem.text);
    ExpectNear(problem.output, of_place, 0x1p-18, problem.text);
    problem.BackwardInOne();
    // Up to 16 * 16 gradients in float32, and their sum rounded to the type.
    const std::vector<double> dx = expected.Dx(problem);
    for (size_t i = 0; i < problem.in; ++i) {
      const double scale = std::abs(problem.weights.at(i % problem.channels)) *
                           expected.inverse[i % problem.channels];
      ASSERT_NEAR(problem.dx.at(i), dx[i], UnitOf(GetParam()) * (std::abs(dx[i]) + 32 * scale))
          << problem.text << " " << i;
    }
  });
}

// --- Refusals ---

TEST(NormPoolKernelsTest, OtherWindowsAreRefused) {
  const absl::Status expected = absl::UnimplementedError(
      "a norm and a pool in one, of windows of 17 x 16 places and 0 pixels");
  NormPoolArgs args;
  args.pool.window = {.kernel = {17, 16}};
  EXPECT_EQ(HostKernels().norm_pool(nullptr, args), expected);
  EXPECT_EQ(HostKernels().norm_pool_backward_sums(nullptr, args), expected);
  EXPECT_EQ(HostKernels().norm_pool_backward_combine(nullptr, args), expected);
  PoolArgs pool;
  pool.rows = pool.height = pool.width = 1 << 10;
  pool.window.kernel = {3, 3};
  EXPECT_TRUE(HasNormPool(pool));
  pool.window.dilation = {1, 2};
  EXPECT_FALSE(HasNormPool(pool));
  pool.window.dilation = {1, 1};
  pool.rows *= 2;
  EXPECT_FALSE(HasNormPool(pool)) << "pixels of more than 31 bits";
}

}  // namespace
}  // namespace millrace::trainer::cuda
