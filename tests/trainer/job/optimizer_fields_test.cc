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
  for (const char* const text :
       {"base_lr: -1", "base_lr: nan", "warmup_epochs: inf", "cosine { end_lr: -1 }",
        "step { factor: -1 }", "step { epoch: 1 epoch: -2 }", "momentum: 1", "momentum: -0.1",
        "weight_decay: -1", "nesterov: true", "sgd {\n momentum: 2 }", "sgd { nesterov: true }",
        "momentum: 0.9 sgd {}", "nesterov: true sgd { momentum: 0.9 }"}) {
    EXPECT_MESSAGE(ErrorOf(text), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_TRUE(ErrorOf("sgd { momentum: 0.9 nesterov: true }").ok());
}

TEST(OptimizerFieldsTest, BothWaysToWriteSgdAreOneText) {
  EXPECT_EQ(ParseOptimizer("sgd { momentum: 0.9 nesterov: true } base_lr: 0.2").DebugString(),
            ParseOptimizer("momentum: 0.9 nesterov: true base_lr: 0.2").DebugString());
  EXPECT_EQ(ParseOptimizer("sgd {}").DebugString(), ParseOptimizer("").DebugString());
}

}  // namespace
}  // namespace millrace::trainer
