#include "trainer/optimizer/sgd.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/trainer/model/test_nets.h"
#include "tests/trainer/optimizer/optimizer_specs.h"
#include "trainer/optimizer/optimizer.h"

namespace millrace::trainer {
namespace {

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
    Optimizer sgd = MakeWhole(nesterov ? "momentum: 0.9 weight_decay: 0.01 nesterov: true"
                                       : "sgd { momentum: 0.9 } weight_decay: 0.01",
                              model);
    TensorSet weights = {{0.5f, -1, 2, 0.1f, 0, 1}, {1, -1}};
    Scalar weight{-1};
    Scalar bias{-1};
    for (int step = 0; step < 50; ++step) {
      const auto g = static_cast<float>(std::sin(step));
      const double rate = 0.1 / (1 + step);
      const UpdateStep update = {step, static_cast<uint64_t>(step) + 1, rate};
      sgd.Apply(0, update, 1, std::vector<float>(6, g), weights[0]);
      sgd.Apply(1, update, 1, std::vector<float>(2, g), weights[1]);
      weight.Step(g, rate, 0.9, 0.01, nesterov);
      bias.Step(g, rate, 0.9, 0, nesterov);
    }
    EXPECT_NEAR(weights[0][1], weight.w, 1e-5);
    EXPECT_NEAR(weights[1][1], bias.w, 1e-5) << "no weight decay on biases";
    ASSERT_EQ(sgd.slots().size(), 1u);
    EXPECT_EQ(sgd.slots()[0].name, "momentum");
    EXPECT_NEAR(sgd.slots()[0].tensors[0][1], weight.v, 1e-5);
  }
}

TEST(SgdTest, DecayBiasDecaysBiases) {
  const Model model = MakeModel(R"(layer { input_layer { shape: 1 } }
    layer { fully_connected { outputs: 2 } } layer { softmax_cross_entropy {} })");
  Optimizer sgd = MakeWhole("weight_decay: 0.5 decay_bias: true", model);
  std::vector<float> bias = {1, 2};
  sgd.Apply(1, {0, 1, 0.5}, 1, std::vector<float>{0, 0}, bias);
  EXPECT_EQ(bias, (std::vector<float>{0.75f, 1.5f}));
}

}  // namespace
}  // namespace millrace::trainer
