// Trainings in bfloat16.

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tests/trainer/loop/train_fixture.h"
#include "trainer/backend/onednn/isa.h"

namespace millrace::trainer {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

bool HasAvx512() { return std::ranges::count(ProcessorFlags(), "avx512f") > 0; }

// True if the number has no more bits than bfloat16.
bool IsHalf(float value) { return (std::bit_cast<uint32_t>(value) & 0xffff) == 0; }

TEST_F(TrainTest, ATrainingInBFloat16LearnsAndKeepsWeightsOfFloat32) {
  if (!HasAvx512()) GTEST_SKIP() << "bfloat16 needs AVX-512";
  constexpr char kOptimizer[] = "base_lr: 0.05 momentum: 0.9";
  WriteJob("checkpoints", kOptimizer, "epochs: 8");
  const auto exact = Run(1);
  ASSERT_TRUE(exact.ok()) << exact.status();
  RemoveCheckpoints();
  WriteJob("checkpoints", kOptimizer, "epochs: 8 precision: \"bfloat16\"");
  for (const int world : {1, 2}) {
    SCOPED_TRACE(world);
    const auto outcome = Run(world);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_THAT(lines_, Contains(HasSubstr("bfloat16")));
    EXPECT_NE(outcome->last_loss, exact->last_loss);
    EXPECT_NEAR(outcome->last_loss, exact->last_loss, 0.1);
    EXPECT_LT(outcome->last_loss, 0.5) << "it begins at log 3";
    EXPECT_GT(outcome->test_accuracy, 0.8);
    const TensorFile file = Load(outcome->checkpoint);
    EXPECT_FALSE(std::ranges::all_of(file.tensors.at("conv1/weights").data, IsHalf));
    RemoveCheckpoints();
  }
}

}  // namespace
}  // namespace millrace::trainer
