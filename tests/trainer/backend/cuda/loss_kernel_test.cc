// Losses against the CPU backend's own function.

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/backend/cuda/kernel_tensor.h"
#include "trainer/backend/loss.h"

namespace millrace::trainer::cuda {
namespace {

enum class Targets { kInt64, kInt32, kFloats };

struct LossCase {
  LossKind kind = LossKind::kSoftmaxCrossEntropy;
  Targets targets = Targets::kInt64;
  int64_t rows = 1;
  int64_t values = 1;
  double smoothing = 0;
  bool accumulates = false;
};

DType TypeOf(Targets targets) {
  return targets == Targets::kFloats  ? DType::kF32
         : targets == Targets::kInt64 ? DType::kI64
                                      : DType::kI32;
}

// A loss's tensors, and the CPU's result.
struct LossProblem {
  LossProblem(const LossCase& test_in, DType type)
      : test(test_in),
        count(static_cast<size_t>(test.rows * test.values)),
        output(type, DrawnValues(count, 1, -4, 4)),
        target(TypeOf(test.targets), MakeTargets()),
        gradient(type, DrawnValues(count, 3)),
        valid(DType::kU8, static_cast<size_t>(test.rows)),
        scratch(DType::kU8, HostKernels().scratch_bytes(test.rows, test.values)) {
    for (size_t row = 0; row < valid.count(); ++row) valid.Set(row, row % 4 == 1 ? 0 : 1);
    step.gradient_scale = kLossScale / kGlobalRows;
    args = {.kind = test.kind,
            .weight = kWeight,
            .smoothing = test.smoothing,
            .batch = {.rows = test.rows, .valid = valid.as<uint8_t>(), .step = &step},
            .values = test.values,
            .type = type,
            .output = output.data(),
            .target = target.data(),
            .target_type = target.type(),
            .gradient = gradient.data(),
            .accumulates = test.accumulates,
            .sums = &sums,
            .scratch = scratch.data()};
  }

  std::vector<double> MakeTargets() const {
    if (test.targets == Targets::kFloats) return DrawnValues(count, 2, 0, 1);
    const bool is_class = test.kind == LossKind::kSoftmaxCrossEntropy;
    std::vector<double> labels(static_cast<size_t>(test.rows));
    for (size_t row = 0; row < labels.size(); ++row) {
      labels[row] = static_cast<double>(row % (is_class ? static_cast<size_t>(test.values) : 2));
    }
    return labels;
  }

  StepResult OnCpu(std::vector<float>& expected_gradient) {
    Loss loss;
    loss.kind = test.kind;
    loss.weight = kWeight;
    loss.smoothing = test.smoothing;
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(output.at(i));
    expected_gradient.resize(count);
    StepInput input;
    input.valid = {valid.as<uint8_t>(), valid.count()};
    input.global_valid_rows = kGlobalRows;
    input.loss_scale = kLossScale;
    Shape shape = {test.rows};
    if (test.targets == Targets::kFloats) shape = {test.rows, test.values};
    return ComputeLoss(loss, values, {target.data(), target.type(), shape}, input,
                       expected_gradient);
  }
  std::string Text() const {
    return absl::StrCat(KindName(test.kind), ", targets ", static_cast<int>(test.targets), ", ",
                        test.rows, " x ", test.values, test.accumulates ? ", accumulates" : "");
  }

  // Both powers of two, so that their quotient, which the step holds in float32, is exact.
  static constexpr int64_t kGlobalRows = 32;
  static constexpr double kLossScale = 128;
  static constexpr double kWeight = 0.7;
  LossCase test;
  size_t count;
  KernelTensor output, target, gradient, valid, scratch;
  StepValues step;
  LossSums sums = {.loss = 10, .error = 20, .correct = 30, .in_top5 = 40, .valid = 50};
  LossArgs args;
};

std::vector<LossCase> LossCases() {
  constexpr LossKind kSoftmax = LossKind::kSoftmaxCrossEntropy;
  constexpr LossKind kSigmoid = LossKind::kSigmoidCrossEntropy;
  return {{kSoftmax, Targets::kInt64, 5, 10},
          {kSoftmax, Targets::kInt32, 9, 3, 0.1, true},
          {kSoftmax, Targets::kFloats, 6, 33, 0.1},
          {kSoftmax, Targets::kInt64, 1, 1000, 0.1},
          {kSoftmax, Targets::kInt64, 3, 1025, 0, true},
          {kSoftmax, Targets::kFloats, 2, 2000},
          {kSoftmax, Targets::kInt64, 300, 2},
          {kSigmoid, Targets::kInt64, 7, 1},
          {kSigmoid, Targets::kInt32, 5, 4, 0, true},
          {kSigmoid, Targets::kFloats, 5, 40},
          {LossKind::kMeanSquaredError, Targets::kFloats, 5, 7},
          {LossKind::kMeanSquaredError, Targets::kFloats, 2, 1500, 0, true},
          {LossKind::kMeanAbsoluteError, Targets::kFloats, 5, 33},
          {LossKind::kGivenGradient, Targets::kFloats, 5, 3},
          {LossKind::kGivenGradient, Targets::kFloats, 5, 3, 0, true}};
}

class LossKernelTest : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Types, LossKernelTest, testing::ValuesIn(kFloatTypes),
                         [](const auto& type) { return std::string(Name(type.param)); });

TEST_P(LossKernelTest, SumsAndGradientsAreTheCpus) {
  for (const LossCase& test : LossCases()) {
    LossProblem problem(test, GetParam());
    std::vector<float> cpu;
    const StepResult expected = problem.OnCpu(cpu);
    const std::vector<double> before = problem.gradient.values();
    ASSERT_TRUE(HostKernels().loss(nullptr, problem.args).ok());
    // Sums in another order, and exponentials that differ in their last bit.
    const double limit = 1e-14 * static_cast<double>(test.values + test.rows) + 1e-13;
    EXPECT_NEAR(problem.sums.loss - 10, expected.loss_sum, limit) << problem.Text();
    EXPECT_NEAR(problem.sums.error - 20, expected.error_sum, limit) << problem.Text();
    EXPECT_EQ(problem.sums.correct - 30, expected.correct) << problem.Text();
    EXPECT_EQ(problem.sums.in_top5 - 40, expected.in_top5) << problem.Text();
    EXPECT_EQ(problem.sums.valid - 50, expected.valid) << problem.Text();
    std::vector<double> gradient(cpu.begin(), cpu.end());
    for (size_t i = 0; test.accumulates && i < gradient.size(); ++i) gradient[i] += before[i];
    ExpectNear(problem.gradient, gradient, 8 * 0x1p-24, problem.Text());
  }
}

TEST_P(LossKernelTest, AnEvaluationWritesNoGradient) {
  LossProblem problem(LossCases()[0], GetParam());
  const KernelTensor before = problem.gradient;
  problem.args.gradient = nullptr;
  ASSERT_TRUE(HostKernels().loss(nullptr, problem.args).ok());
  EXPECT_GT(problem.sums.loss, 10);
  EXPECT_EQ(problem.gradient.bytes(), before.bytes());
}

TEST_P(LossKernelTest, ABatchOfPaddingAddsNothing) {
  for (const LossCase& test : LossCases()) {
    LossProblem problem(test, GetParam());
    for (size_t row = 0; row < problem.valid.count(); ++row) problem.valid.Set(row, 0);
    for (size_t i = 0; i < problem.count; ++i) {
      problem.output.Set(i, std::numeric_limits<double>::quiet_NaN());
    }
    problem.args.accumulates = false;
    ASSERT_TRUE(HostKernels().loss(nullptr, problem.args).ok());
    EXPECT_EQ(problem.sums.loss, 10);
    EXPECT_EQ(problem.sums.valid, 50);
    EXPECT_EQ(problem.gradient.values(), std::vector<double>(problem.count, 0.0));
  }
}

// Of equal outputs the first counts.
TEST(SoftmaxKernelTest, EqualLogitsAreCountedAsOnTheCpu) {
  for (const int64_t label : {0, 3, 4, 5, 9}) {
    LossProblem problem({.rows = 1, .values = 10}, DType::kF32);
    for (size_t i = 0; i < 10; ++i) problem.output.Set(i, i == 9 ? 2 : 1);
    problem.target.Set(0, static_cast<double>(label));
    std::vector<float> gradient;
    const StepResult expected = problem.OnCpu(gradient);
    ASSERT_TRUE(HostKernels().loss(nullptr, problem.args).ok());
    EXPECT_EQ(problem.sums.correct - 30, expected.correct) << label;
    EXPECT_EQ(problem.sums.in_top5 - 40, expected.in_top5) << label;
  }
}

TEST(SoftmaxKernelTest, LargeLogitsDoNotOverflow) {
  LossProblem problem({.rows = 1, .values = 3}, DType::kF32);
  for (size_t i = 0; i < 3; ++i) problem.output.Set(i, i == 0 ? 3e38 : -3e38);
  std::vector<float> gradient;
  const StepResult expected = problem.OnCpu(gradient);
  ASSERT_TRUE(HostKernels().loss(nullptr, problem.args).ok());
  EXPECT_EQ(problem.sums.loss - 10, expected.loss_sum);
  EXPECT_EQ(problem.gradient.values(), std::vector<double>(gradient.begin(), gradient.end()));
}

// The loss says that something is wrong, and nothing outside the row is read.
TEST(SoftmaxKernelTest, ALabelThatIsNoClassMakesNoNumber) {
  for (const double label : {-1.0, 3.0, 1e18}) {
    LossProblem problem({.rows = 1, .values = 3}, DType::kF32);
    problem.target.Set(0, label);
    ASSERT_TRUE(HostKernels().loss(nullptr, problem.args).ok());
    EXPECT_TRUE(std::isnan(problem.sums.loss)) << label;
    EXPECT_EQ(problem.sums.correct, 30);
  }
}

TEST(SoftmaxKernelTest, ANotANumberStaysOne) {
  for (const size_t place : {0u, 2u, 9u}) {
    LossProblem problem({.rows = 1, .values = 10}, DType::kF32);
    problem.output.Set(place, std::numeric_limits<double>::quiet_NaN());
    ASSERT_TRUE(HostKernels().loss(nullptr, problem.args).ok());
    EXPECT_TRUE(std::isnan(problem.sums.loss)) << place;
  }
}

}  // namespace
}  // namespace millrace::trainer::cuda
