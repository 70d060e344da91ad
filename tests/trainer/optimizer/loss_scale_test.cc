#include "trainer/optimizer/loss_scale.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <vector>

#include "trainer/job/job.pb.h"
#include "trainer/job/loss_scaling.h"

namespace millrace::trainer {
namespace {

LossScaling Parse(const std::string& text) {
  LossScaling spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  FillDefaults(spec);
  return spec;
}

TEST(LossScaleTest, ADynamicOneGrowsAfterGoodStepsAndShrinksAtASkippedOne) {
  const LossScaling spec = Parse("dynamic { init_scale: 8 growth_interval: 3 }");
  LossScale scale = BeginLossScale(spec, std::nullopt);
  std::vector<double> scales;
  for (const bool is_skipped : {false, false, true, false, false, false, false, false, false}) {
    UpdateLossScale(spec, is_skipped, scale);
    scales.push_back(scale.scale);
  }
  EXPECT_EQ(scales, (std::vector<double>{8, 8, 4, 4, 4, 8, 8, 8, 16}));
  EXPECT_EQ(scale.good_steps, 0u);
}

TEST(LossScaleTest, ItStaysBetweenItsLimits) {
  const LossScaling spec =
      Parse("dynamic { growth_interval: 1 growth_factor: 1024 backoff_factor: 0.0009765625 }");
  LossScale scale = BeginLossScale(spec, std::nullopt);
  EXPECT_EQ(scale.scale, 65536);
  UpdateLossScale(spec, false, scale);
  EXPECT_EQ(scale.scale, kLargestLossScale);
  for (int i = 0; i < 3; ++i) UpdateLossScale(spec, true, scale);
  EXPECT_EQ(scale.scale, 1);
}

TEST(LossScaleTest, ATrainingThatGoesOnHasTheScaleThatWasSaved) {
  const LossScale saved = {32, 7};
  EXPECT_EQ(BeginLossScale(Parse("dynamic {}"), saved), saved);
  EXPECT_EQ(BeginLossScale(Parse("static: 1024"), saved).scale, 1024);
  LossScale fixed = {1024, 0};
  UpdateLossScale(Parse("static: 1024"), true, fixed);
  EXPECT_EQ(fixed.scale, 1024);
}

}  // namespace
}  // namespace millrace::trainer
