// Pools against plain loops in float64, and against the CPU's max pool.

#include "trainer/backend/onednn/pool_kernels.h"

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

struct PoolCase {
  const char* name;
  int64_t rows, height, width;
  Window window;
};

const PoolCase kPoolCases[] = {
    {"two by two", 2, 8, 6, {.kernel = {2, 2}, .stride = {2, 2}}},
    {"stem", 2, 9, 11, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1, 1, 1}}},
    {"gaps", 1, 9, 7, {.kernel = {2, 3}, .stride = {3, 4}}},
    {"one side", 3, 5, 4, {.kernel = {3, 2}, .padding = {2, 0, 0, 1}}},
    {"dilated", 1, 10, 9, {.kernel = {3, 2}, .dilation = {2, 3}, .padding = {2, 2, 3, 3}}},
    {"dilated, strided", 2, 11, 9, {{2, 2}, {2, 3}, {3, 2}, {1, 2, 1, 1}}},
    {"one pixel", 1, 1, 1, {.kernel = {1, 1}}},
    {"global", 2, 7, 5, {.kernel = {7, 5}}},
    {"most places", 1, 17, 18, {.kernel = {16, 16}}}};
constexpr int64_t kPoolChannels[] = {1, 3, 5, 8, 33, 64};

int64_t OutExtent(const PoolCase& test, int axis) {
  const Window& w = test.window;
  const int64_t extent = axis == 0 ? test.height : test.width;
  const int64_t reach = (w.kernel[axis] - 1) * w.dilation[axis] + 1;
  return (extent + w.padding[2 * axis] + w.padding[2 * axis + 1] - reach) / w.stride[axis] + 1;
}

// A pool with its tensors, and the same in float64.
struct PoolProblem {
  PoolProblem(const PoolCase& test, int64_t channels, DType type, bool is_average)
      : args({.is_average = is_average,
              .type = type,
              .rows = test.rows,
              .height = test.height,
              .width = test.width,
              .out_height = OutExtent(test, 0),
              .out_width = OutExtent(test, 1),
              .channels = channels,
              .window = test.window}),
        input(type, Steps(Count(test.height, test.width), 1)),
        output(type, Count(args.out_height, args.out_width)),
        places(DType::kU8, output.count()),
        output_gradient(type, DrawnValues(output.count(), 2)),
        input_gradient(type, DrawnValues(input.count(), 3)) {}

  size_t Count(int64_t height, int64_t width) const {
    return static_cast<size_t>(args.rows * height * width * args.channels);
  }
  // Few different numbers, so that many are equal.
  static std::vector<double> Steps(size_t count, unsigned seed) {
    std::vector<double> values = DrawnValues(count, seed, -2, 2);
    for (double& value : values) value = std::floor(value);
    return values;
  }

  // Calls visit(output value, input value, place) for all places that lie in the image, in order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    const Window& w = args.window;
    size_t out = 0;
    for (int64_t row = 0; row < args.rows; ++row) {
      for (int64_t y = 0; y < args.out_height; ++y) {
        for (int64_t x = 0; x < args.out_width; ++x) {
          for (int64_t c = 0; c < args.channels; ++c, ++out) {
            for (int64_t k = 0; k < w.kernel[0] * w.kernel[1]; ++k) {
              const int64_t sy = y * w.stride[0] - w.padding[0] + k / w.kernel[1] * w.dilation[0];
              const int64_t sx = x * w.stride[1] - w.padding[2] + k % w.kernel[1] * w.dilation[1];
              if (sy < 0 || sx < 0 || sy >= args.height || sx >= args.width) continue;
              const int64_t in = ((row * args.height + sy) * args.width + sx) * args.channels + c;
              visit(out, static_cast<size_t>(in), static_cast<size_t>(k));
            }
          }
        }
      }
    }
  }

  struct Expected {
    std::vector<double> output;
    std::vector<size_t> places;   // of maxima
    std::vector<size_t> sources;  // input values of maxima
    std::vector<double> counts;   // of places in the image
  };
  Expected Forward() const {
    Expected made;
    made.output.assign(output.count(), 0);
    made.places.assign(output.count(), 0);
    made.sources.assign(output.count(), 0);
    made.counts.assign(output.count(), 0);
    ForEach([&](size_t out, size_t in, size_t place) {
      const double value = input.at(in);
      if (args.is_average) {
        made.output[out] += value;
      } else if (made.counts[out] == 0 || value > made.output[out]) {
        made.output[out] = value;
        made.places[out] = place;
        made.sources[out] = in;
      }
      made.counts[out] += 1;
    });
    for (size_t i = 0; args.is_average && i < made.output.size(); ++i) {
      made.output[i] /= std::max(1.0, made.counts[i]);
    }
    return made;
  }

  PoolArgs ForwardArgs() {
    PoolArgs forward = args;
    forward.from = input.data();
    forward.to = output.data();
    if (!args.is_average) forward.places = places.as<uint8_t>();
    return forward;
  }
  PoolArgs BackwardArgs(bool accumulates) {
    PoolArgs backward = args;
    backward.from = output_gradient.data();
    backward.to = input_gradient.data();
    if (!args.is_average) backward.places = places.as<uint8_t>();
    backward.accumulates = accumulates;
    return backward;
  }

  PoolArgs args;
  KernelTensor input;
  KernelTensor output;
  KernelTensor places;
  KernelTensor output_gradient;
  KernelTensor input_gradient;
};

class PoolKernelsTest : public testing::TestWithParam<DType> {
 protected:
  // Calls `check` with all pools.
  template <typename Check>
  static void ForEachProblem(const Check& check) {
    for (const PoolCase& test : kPoolCases) {
      for (const int64_t channels : kPoolChannels) {
        for (const bool is_average : {false, true}) {
          PoolProblem problem(test, channels, GetParam(), is_average);
          check(problem, absl::StrCat(test.name, " ", channels, is_average ? " average" : " max"));
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Types, PoolKernelsTest, testing::ValuesIn(kFloatTypes),
                         [](const auto& type) { return std::string(Name(type.param)); });

TEST_P(PoolKernelsTest, OutputsAreThoseOfPlainLoopsAndOfEqualsTheFirstWins) {
  ForEachProblem([](PoolProblem& problem, const std::string& text) {
    ASSERT_TRUE(HostKernels().pool(nullptr, problem.ForwardArgs()).ok());
    const PoolProblem::Expected expected = problem.Forward();
    ExpectNear(problem.output, expected.output, 0x1p-20, text);
    if (problem.args.is_average) return;
    for (size_t i = 0; i < expected.places.size(); ++i) {
      ASSERT_EQ(problem.places.at(i), static_cast<double>(expected.places[i])) << text << " " << i;
    }
  });
}

TEST_P(PoolKernelsTest, GradientsGoWhereTheValuesCameFrom) {
  for (const bool accumulates : {false, true}) {
    ForEachProblem([&](PoolProblem& problem, const std::string& text) {
      const PoolProblem::Expected forward = problem.Forward();
      for (size_t i = 0; i < forward.places.size(); ++i) {
        problem.places.Set(i, static_cast<double>(forward.places[i]));
      }
      std::vector<double> expected = problem.input_gradient.values();
      if (!accumulates) expected.assign(expected.size(), 0);
      problem.ForEach([&](size_t out, size_t in, size_t) {
        const double gradient = problem.output_gradient.at(out);
        if (problem.args.is_average) expected[in] += gradient / forward.counts[out];
        if (!problem.args.is_average && forward.sources[out] == in) expected[in] += gradient;
      });
      ASSERT_TRUE(HostKernels().pool_backward(nullptr, problem.BackwardArgs(accumulates)).ok());
      // Sums of up to 256 terms of at most 2 in float32.
      ExpectNear(problem.input_gradient, expected, 0x1p-15, text);
    });
  }
}

// The CPU's kernel has the same maxima and places, also of values that are no numbers.
TEST(MaxPoolKernelTest, MaximaAndPlacesAreTheCpus) {
  for (const PoolCase& test : kPoolCases) {
    if (test.window.dilation[0] != 1) continue;  // the CPU has none in pools
    for (const int64_t channels : kPoolChannels) {
      PoolProblem problem(test, channels, DType::kF32, false);
      for (size_t i = 0; i < problem.input.count(); i += 13) {
        problem.input.Set(i, std::numeric_limits<double>::quiet_NaN());
      }
      for (size_t i = 5; i < problem.input.count(); i += 13) {
        problem.input.Set(i, -std::numeric_limits<double>::infinity());
      }
      ASSERT_TRUE(HostKernels().pool(nullptr, problem.ForwardArgs()).ok());
      const PoolShape shape = {
          test.height, test.width, problem.args.out_height, problem.args.out_width,
          channels,    test.window};
      std::vector<float> expected(problem.output.count());
      std::vector<uint8_t> places(problem.output.count());
      for (int64_t row = 0; row < test.rows; ++row) {
        PoolWork work;
        work.shape = &shape;
        work.source = problem.input.as<float>() + row * shape.source_values();
        work.output = expected.data() + row * shape.out_values();
        work.places = places.data() + row * shape.out_values();
        PoolKernelsOf(false).forward(work);
      }
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(problem.places.at(i), places[i]) << test.name << " " << channels << " " << i;
        if (std::isnan(expected[i])) {
          ASSERT_TRUE(std::isnan(problem.output.at(i)));
        } else {
          ASSERT_EQ(problem.output.at(i), expected[i]);
        }
      }
    }
  }
}

TEST(MaxPoolKernelTest, AnEvaluationKeepsNoPlaces) {
  PoolProblem problem(kPoolCases[1], 8, DType::kF32, false);
  PoolArgs args = problem.ForwardArgs();
  args.places = nullptr;
  ASSERT_TRUE(HostKernels().pool(nullptr, args).ok());
  ExpectNear(problem.output, problem.Forward().output, 0, "without places");
}

TEST(MaxPoolKernelTest, AWindowOfMorePlacesThanAByteCountsIsRefused) {
  const PoolArgs args = {.rows = 1,
                         .height = 17,
                         .width = 17,
                         .out_height = 1,
                         .out_width = 1,
                         .window = {.kernel = {17, 16}}};
  const absl::Status expected =
      absl::UnimplementedError("a max pool of 272 places: on this device a window has at most 256");
  EXPECT_EQ(HostKernels().pool(nullptr, args), expected);
  EXPECT_EQ(HostKernels().pool_backward(nullptr, args), expected);
}

}  // namespace
}  // namespace millrace::trainer::cuda
