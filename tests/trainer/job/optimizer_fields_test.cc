#include "trainer/job/optimizer_fields.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <fstream>
#include <set>

#include "tests/messages.h"
#include "tests/temp_folder.h"
#include "tests/trainer/optimizer/optimizer_specs.h"
#include "trainer/job/job.h"

namespace millrace::trainer {
namespace {

absl::Status ErrorOf(const std::string& optimizer) {
  const TempFolder folder;
  const std::string path = folder / "job.pbtxt";
  std::ofstream(path) << "model: \"m\" train: \"t\"\noptimizer {\n  " << optimizer << "\n}\n";
  std::set<std::string> used;
  return LoadJob(path, {}, used).status();
}

TEST(OptimizerFieldsTest, AWrongNumberNamesItsPlaceAndField) {
  for (const char* const text : {"base_lr: -1",
                                 "base_lr: nan",
                                 "warmup_epochs: inf",
                                 "cosine { end_lr: -1 }",
                                 "step { factor: -1 }",
                                 "step { epoch: 1 epoch: -2 }",
                                 "momentum: 1",
                                 "momentum: -0.1",
                                 "weight_decay: -1",
                                 "nesterov: true",
                                 "sgd {\n momentum: 2 }",
                                 "sgd { nesterov: true }",
                                 "momentum: 0.9 sgd {}",
                                 "nesterov: true sgd { momentum: 0.9 }",
                                 "adam { beta1: 1 }",
                                 "adamw { beta2: -1 }",
                                 "adam { epsilon: nan }",
                                 "momentum: 0.9 adam {}",
                                 "rmsprop { alpha: 2 }",
                                 "group {}",
                                 "group { pattern: \"*\" } group {\n pattern: \"*\" lr_scale: -1 }",
                                 "group { pattern: \"*\" weight_decay: inf }",
                                 "group { pattern: \"*\" trust: false }",
                                 "scaling: SQUARE_ROOT",
                                 "polynomial { power: -1 }",
                                 "exponential {}",
                                 "exponential { factor: 1 epochs: 0 }",
                                 "cosine_restarts {}",
                                 "cosine_restarts { epochs: 1 multiplier: 0.5 }",
                                 "one_cycle { pct_start: 1 }",
                                 "one_cycle { div_factor: 0 }",
                                 "warmup_steps: 1\none_cycle {}",
                                 "scaling: CUBE",
                                 "ema { decay: 1 }",
                                 "lars { momentum: 1 }",
                                 "lars { trust_coefficient: -1 }",
                                 "nesterov: true\nrmsprop {}"}) {
    EXPECT_MESSAGE(ErrorOf(text), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_TRUE(ErrorOf("sgd { momentum: 0.9 nesterov: true }").ok());
}

TEST(OptimizerFieldsTest, DefaultsAreInTheText) {
  EXPECT_EQ(ParseOptimizer("adam { beta1: 0.5 }").DebugString(),
            "base_lr: 0.1\nadam {\n  beta1: 0.5\n  beta2: 0.999\n  epsilon: 1e-08\n}\n");
  EXPECT_EQ(ParseOptimizer("rmsprop {}").DebugString(),
            "base_lr: 0.1\nrmsprop {\n  alpha: 0.99\n  epsilon: 1e-08\n}\n");
}

TEST(OptimizerFieldsTest, BothWaysToWriteSgdAreOneText) {
  EXPECT_EQ(ParseOptimizer("sgd { momentum: 0.9 nesterov: true } base_lr: 0.2").DebugString(),
            ParseOptimizer("momentum: 0.9 nesterov: true base_lr: 0.2").DebugString());
  EXPECT_EQ(ParseOptimizer("sgd {}").DebugString(), ParseOptimizer("").DebugString());
}

}  // namespace
}  // namespace millrace::trainer
