#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <cmath>
#include <numbers>

#include "tests/messages.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/job/job.pb.h"
#include "trainer/optimizer/schedule.h"
#include "trainer/optimizer/sgd.h"

namespace millrace::trainer {
namespace {

Optimizer Parse(const std::string& text) {
  Optimizer optimizer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &optimizer));
  return optimizer;
}

Schedule MakeSchedule(const std::string& text, uint64_t batch = 256) {
  return *Schedule::Make(Parse(text), batch, 10, 100);
}

TEST(ScheduleTest, TheRateGrowsWithTheGlobalBatch) {
  EXPECT_DOUBLE_EQ(MakeSchedule("base_lr: 0.1 base_batch: 256", 1024).RateAt(0), 0.4);
  EXPECT_DOUBLE_EQ(MakeSchedule("base_lr: 0.1", 1024).RateAt(99), 0.1);
  EXPECT_DOUBLE_EQ(MakeSchedule("").RateAt(0), 0.1) << "the default";
}

TEST(ScheduleTest, WarmUpIsLinearPerStepAndEndsAtTheFullRate) {
  const Schedule schedule = MakeSchedule("base_lr: 1 warmup_epochs: 0.5 warmup_steps: 5");
  EXPECT_EQ(schedule.warmup_steps(), 10u);
  for (int step = 0; step < 10; ++step) {
    EXPECT_DOUBLE_EQ(schedule.RateAt(step), (step + 1) / 10.0);
  }
  EXPECT_DOUBLE_EQ(schedule.RateAt(10), 1);
  EXPECT_DOUBLE_EQ(MakeSchedule("base_lr: 1 warmup_steps: 4 warmup_start_lr: 0.2").RateAt(1), 0.6);
}

TEST(ScheduleTest, CosineFallsFromTheFullRateToTheEnd) {
  const Schedule schedule = MakeSchedule("base_lr: 2 warmup_epochs: 2 cosine { end_lr: 0.5 }");
  EXPECT_DOUBLE_EQ(schedule.RateAt(20), 2);
  EXPECT_DOUBLE_EQ(schedule.RateAt(60), 1.25);
  EXPECT_NEAR(schedule.RateAt(99), 0.5 + 0.75 * (1 + std::cos(std::numbers::pi * 79 / 80)), 1e-12);
  EXPECT_DOUBLE_EQ(schedule.RateAt(100), 0.5);
}

TEST(ScheduleTest, StepsMultiplyAtTheirEpochs) {
  const Schedule schedule = MakeSchedule("base_lr: 1 step { epoch: 3 epoch: 6 }");
  EXPECT_DOUBLE_EQ(schedule.RateAt(29), 1);
  EXPECT_DOUBLE_EQ(schedule.RateAt(30), 0.1);
  EXPECT_NEAR(schedule.RateAt(60), 0.01, 1e-15);
}

TEST(ScheduleTest, BadNumbersAreNamed) {
  for (const char* const text : {"base_lr: -1", "base_lr: nan", "warmup_epochs: inf",
                                 "cosine { end_lr: -1 }", "step { factor: -1 }"}) {
    EXPECT_MESSAGE(Schedule::Make(Parse(text), 1, 1, 1).status(),
                   absl::StatusCode::kInvalidArgument)
        << text;
  }
}

// The textbook update in double, for one weight.
struct Scalar {
  double w, v = 0;
  void Step(double g, double rate, double momentum, double decay, bool nesterov) {
    g += decay * w;
    v = momentum * v + g;
    w -= rate * (nesterov ? g + momentum * v : v);
  }
};

TEST(SgdTest, ManyStepsMatchTheScalarReference) {
  const Model model = MakeModel(R"(layer { input_layer { shape: 3 } }
    layer { fully_connected { outputs: 2 } } layer { softmax_cross_entropy {} })");
  for (const bool nesterov : {false, true}) {
    auto sgd = Sgd::Make(Parse(nesterov ? "momentum: 0.9 weight_decay: 0.01 nesterov: true"
                                        : "momentum: 0.9 weight_decay: 0.01"),
                         model, MakeZeros(model));
    ASSERT_TRUE(sgd.ok());
    TensorSet weights = {{0.5f, -1, 2, 0.1f, 0, 1}, {1, -1}};
    Scalar weight{-1};
    Scalar bias{-1};
    for (int step = 0; step < 50; ++step) {
      const auto g = static_cast<float>(std::sin(step));
      const double rate = 0.1 / (1 + step);
      sgd->Apply(0, rate, 1, std::vector<float>(6, g), weights[0]);
      sgd->Apply(1, rate, 1, std::vector<float>(2, g), weights[1]);
      weight.Step(g, rate, 0.9, 0.01, nesterov);
      bias.Step(g, rate, 0.9, 0, nesterov);
    }
    EXPECT_NEAR(weights[0][1], weight.w, 1e-5);
    EXPECT_NEAR(weights[1][1], bias.w, 1e-5) << "no weight decay on biases";
    EXPECT_NEAR(sgd->velocity()[0][1], weight.v, 1e-5);
  }
}

TEST(SgdTest, DecayBiasDecaysBiases) {
  const Model model = MakeModel(R"(layer { input_layer { shape: 1 } }
    layer { fully_connected { outputs: 2 } } layer { softmax_cross_entropy {} })");
  auto sgd = Sgd::Make(Parse("weight_decay: 0.5 decay_bias: true"), model, MakeZeros(model));
  ASSERT_TRUE(sgd.ok());
  std::vector<float> bias = {1, 2};
  sgd->Apply(1, 0.5, 1, std::vector<float>{0, 0}, bias);
  EXPECT_EQ(bias, (std::vector<float>{0.75f, 1.5f}));
}

TEST(SgdTest, BadNumbersAreNamed) {
  const Model model = MakeModel(R"(layer { input_layer { shape: 1 } }
    layer { fully_connected { outputs: 2 } } layer { softmax_cross_entropy {} })");
  for (const char* text : {"momentum: 1", "momentum: -0.1", "weight_decay: -1", "nesterov: true"}) {
    EXPECT_EQ(Sgd::Make(Parse(text), model, MakeZeros(model)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

}  // namespace
}  // namespace millrace::trainer
