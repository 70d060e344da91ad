#include "trainer/optimizer/sgd.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/trainer/model/test_nets.h"
#include "tests/trainer/optimizer/optimizer_specs.h"
#include "trainer/optimizer/optimizer.h"

namespace millrace::trainer {
namespace {

// Of all parameters of `model`, from the first step on.
Optimizer MakeWhole(const std::string& text, const Model& model) {
  const OptimizerSpec spec = ParseOptimizer(text);
  return Optimizer(spec, model, MakeSlots(spec, model), WholeParameters(model));
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
    Optimizer sgd = MakeWhole(nesterov ? "momentum: 0.9 weight_decay: 0.01 nesterov: true"
                                       : "sgd { momentum: 0.9 } weight_decay: 0.01",
                              model);
    TensorSet weights = {{0.5f, -1, 2, 0.1f, 0, 1}, {1, -1}};
    Scalar weight{-1};
    Scalar bias{-1};
    for (int step = 0; step < 50; ++step) {
      const auto g = static_cast<float>(std::sin(step));
      const double rate = 0.1 / (1 + step);
      sgd.Apply(0, rate, 1, std::vector<float>(6, g), weights[0]);
      sgd.Apply(1, rate, 1, std::vector<float>(2, g), weights[1]);
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
  sgd.Apply(1, 0.5, 1, std::vector<float>{0, 0}, bias);
  EXPECT_EQ(bias, (std::vector<float>{0.75f, 1.5f}));
}

// Elements do not depend on each other, so pieces of a parameter are updated as the whole is.
TEST(SgdTest, PiecesHaveTheBitsOfTheWhole) {
  const Model model = MakeModel(R"(layer { input_layer { shape: 3 } }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  const OptimizerSpec spec = ParseOptimizer("momentum: 0.9 nesterov: true weight_decay: 0.01");
  Optimizer whole = MakeWhole("momentum: 0.9 nesterov: true weight_decay: 0.01", model);
  Optimizer pieces(spec, model, MakeSlots(spec, model), {{0, 0, 4}, {0, 4, 9}});
  std::vector<float> a = {1, -2, 3, -4, 5, -6, 7, -8, 9};
  std::vector<float> b = a;
  for (int step = 0; step < 5; ++step) {
    std::vector<float> gradient;
    for (int k = 0; k < 9; ++k) gradient.push_back(static_cast<float>(std::sin(step + k)));
    whole.Apply(0, 0.1, 0.5f, gradient, a);
    pieces.Apply(0, 0.1, 0.5f, std::span(gradient).first(4), std::span(b).first(4));
    pieces.Apply(1, 0.1, 0.5f, std::span(gradient).subspan(4), std::span(b).subspan(4));
  }
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace millrace::trainer
