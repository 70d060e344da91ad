// Denormal numbers: zeros in the passes of a network on all of its threads, and numbers outside.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/trainer/model/test_nets.h"
#include "trainer/compute/keep_denormals.h"
#include "trainer/compute/threads.h"

namespace millrace::trainer {
namespace {

constexpr int64_t kRows = 64;
constexpr int64_t kInputs = 96;
constexpr int64_t kOutputs = 48;
constexpr int kThreads = 2;

// Of factors that the compiler does not know.
float Product(float a, float b) {
  const volatile float left = a;
  const volatile float right = b;
  return left * right;
}

// A product of `input` and `weight` everywhere, whose error against `target` is propagated.
class DenormalsTest : public ::testing::Test {
 protected:
  // Forward and backward. Denormal numbers are looked for in `output_` and `gradients_`.
  void Step(float input, float weight, float target) {
    TensorSet weights = MakeZeros(model_);
    std::ranges::fill(weights[0], weight);
    gradients_ = MakeZeros(model_);
    const std::vector<float> inputs(kRows * kInputs, input);
    const std::vector<float> targets(kRows * kOutputs, target);
    const std::vector<uint8_t> valid(kRows, 1);
    StepInput step;
    step.inputs = {{inputs.data(), DType::kF32, Shape{kRows, kInputs}}};
    step.targets = {{targets.data(), DType::kF32, Shape{kRows, kOutputs}}};
    step.valid = valid;
    step.global_valid_rows = kRows;
    const auto backend =
        MakeOneDnnBackend(model_, weights, kNoBuffers, Spans(gradients_), kThreads);
    ASSERT_TRUE(backend.ok()) << backend.status();
    int reported = 0;
    const auto ready = [&](size_t) {
      reported += KeepsDenormals() ? 1 : 0;
      return absl::OkStatus();
    };
    ASSERT_TRUE(TrainStep(**backend, step, ready).ok());
    EXPECT_EQ(reported, 1) << "gradients are summed over ranks with denormal numbers";
    EXPECT_TRUE(KeepsDenormals()) << "the caller's mode is restored";
    const auto output = *(*(*backend)->Compile(kRows, NetworkUse::kTraining))->output(0);
    output_.assign(output.begin(), output.end());
  }

  static bool KeepsDenormals() {
    constexpr float kLeast = std::numeric_limits<float>::min();
    return Product(kLeast, 0.5f) > 0 && Product(kLeast / 2, 4) > 0;
  }
  static bool AreZeros(const std::vector<float>& values) {
    return std::ranges::all_of(values, [](float value) { return value == 0; });
  }

  const Model model_ = MakeModel(
      "layer { input_layer { shape: 96 } }\n"
      "layer { fully_connected { outputs: 48 bias: false } } layer { mean_squared_error {} }\n");
  std::vector<float> output_;
  TensorSet gradients_;
};

#if defined(__x86_64__)

TEST_F(DenormalsTest, ProductsThatAreDenormalAreZeros) {
  Step(1e-22f, 1e-20f, 1e-16f);
  ASSERT_GT(Product(1e-22f, 1e-20f), 0);
  EXPECT_TRUE(AreZeros(output_));
  EXPECT_TRUE(AreZeros(gradients_[0])) << "the output's gradient is about 1e-19";
}

TEST_F(DenormalsTest, FactorsThatAreDenormalAreZeros) {
  Step(1e-40f, 1e20f, 1);
  ASSERT_GT(Product(1e-40f, 1e20f), 0);
  EXPECT_TRUE(AreZeros(output_));
  EXPECT_TRUE(AreZeros(gradients_[0]));
}

// The caller's mode is restored.
TEST_F(DenormalsTest, AllThreadsButTheCallersFlushThem) {
  Step(1, 1, 0);
  std::vector<int> keeps(kThreads, -1);
  const auto look = [&](int thread, int) { keeps[thread] = KeepsDenormals() ? 1 : 0; };
  RunOnThreads(kThreads, look);
  EXPECT_EQ(keeps, (std::vector<int>{1, 0}));
  RunOnThreads(kThreads, [&](int thread, int of) {
    const KeepDenormals keep;
    look(thread, of);
  });
  EXPECT_EQ(keeps, (std::vector<int>{1, 1}));
}

#endif

// So that a network that computes nothing does not pass the tests above.
TEST_F(DenormalsTest, OtherNumbersAreNotZeros) {
  Step(1e-15f, 1e-20f, 1e-10f);
  EXPECT_FLOAT_EQ(output_.front(), kInputs * 1e-35f);
  EXPECT_FLOAT_EQ(output_.back(), kInputs * 1e-35f);
  EXPECT_LT(gradients_[0].back(), 0);
}

}  // namespace
}  // namespace millrace::trainer
