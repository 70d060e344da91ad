// Every optimizer, step by step: as PyTorch's, as its formula in double, and in pieces as whole.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/trainer/model/test_nets.h"
#include "tests/trainer/optimizer/optimizer_fixtures.h"
#include "tests/trainer/optimizer/optimizer_specs.h"

namespace millrace::trainer {
namespace {

double NormOfAll(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum);
}

// Its first parameter, of six elements, is the one of the cases.
Model MakeSixWeights() {
  return MakeModel(R"(layer { input_layer { shape: 3 } }
    layer { fully_connected { outputs: 2 } } layer { softmax_cross_entropy {} })");
}

UpdateStep UpdateOf(size_t step, double rate) {
  return {static_cast<int64_t>(step), step + 1, rate};
}

TEST(OptimizersTest, EveryStepIsPyTorchs) {
  const Model model = MakeSixWeights();
  for (const OptimizerCase& one : ReadOptimizerCases()) {
    Optimizer optimizer = MakeWhole(one.spec, model);
    std::vector<float> weights = one.start;
    ASSERT_EQ(one.steps.size(), 12u) << one.name;
    for (size_t step = 0; step < one.steps.size(); ++step) {
      const auto& [rate, gradient, expected] = one.steps[step];
      optimizer.SetNorms({{NormOfAll(weights), NormOfAll(gradient)}});
      optimizer.Apply(0, UpdateOf(step, rate), 1, gradient, weights);
      for (size_t k = 0; k < weights.size(); ++k) {
        ASSERT_NEAR(weights[k], expected[k], 2e-6 * std::max(1.0f, std::abs(expected[k])))
            << one.name << ", step " << step << ", weight " << k;
      }
    }
  }
}

// One weight, in double, by the formulas of job.proto.
struct Formula {
  const OptimizerSpec spec;
  double w = 0;
  double m = 0;
  double v = 0;
  double a = 0;

  void Step(double n, double rate, double g, const ParameterNorms& norms) {
    const double decayed = g + spec.weight_decay() * w;
    if (spec.has_adam()) return StepAdam(spec.adam(), n, rate, decayed);
    if (spec.has_adamw()) {
      w -= rate * spec.weight_decay() * w;
      return StepAdam(spec.adamw(), n, rate, g);
    }
    if (spec.has_rmsprop()) return StepRmsProp(spec.rmsprop(), rate, decayed);
    if (spec.has_lars()) return StepLars(spec.lars(), rate, decayed, norms);
    m = spec.momentum() * m + decayed;
    w -= rate * (spec.nesterov() ? decayed + spec.momentum() * m : m);
  }
  void StepLars(const Lars& lars, double rate, double d, const ParameterNorms& norms) {
    const double trust = lars.trust_coefficient() * norms.weights /
                         (norms.gradient + spec.weight_decay() * norms.weights + lars.epsilon());
    m = lars.momentum() * m + trust * d;
    w -= rate * m;
  }
  void StepAdam(const Adam& adam, double n, double rate, double d) {
    m = adam.beta1() * m + (1 - adam.beta1()) * d;
    v = adam.beta2() * v + (1 - adam.beta2()) * d * d;
    w -= rate * (m / (1 - std::pow(adam.beta1(), n))) /
         (std::sqrt(v / (1 - std::pow(adam.beta2(), n))) + adam.epsilon());
  }
  void StepRmsProp(const RmsProp& rmsprop, double rate, double d) {
    v = rmsprop.alpha() * v + (1 - rmsprop.alpha()) * d * d;
    a = rmsprop.alpha() * a + (1 - rmsprop.alpha()) * d;
    const double square = rmsprop.centered() ? v - a * a : v;
    m = rmsprop.momentum() * m + d / (std::sqrt(square) + rmsprop.epsilon());
    w -= rate * m;
  }
};

TEST(OptimizersTest, EveryStepIsTheFormulas) {
  const Model model = MakeSixWeights();
  for (const OptimizerCase& one : ReadOptimizerCases()) {
    Optimizer optimizer = MakeWhole(one.spec, model);
    std::vector<float> weights = one.start;
    std::vector<Formula> formulas;
    for (const float w : one.start) formulas.push_back({ParseOptimizer(one.spec), w});
    for (size_t step = 0; step < one.steps.size(); ++step) {
      std::vector<float> halved = one.steps[step].gradient;
      for (float& g : halved) g /= 2;
      const ParameterNorms norms = {NormOfAll(weights), NormOfAll(one.steps[step].gradient)};
      optimizer.SetNorms({{norms.weights, norms.gradient / 2}});
      optimizer.Apply(0, UpdateOf(step, one.steps[step].rate), 2, halved, weights);
      for (size_t k = 0; k < weights.size(); ++k) {
        formulas[k].Step(static_cast<double>(step) + 1, one.steps[step].rate,
                         one.steps[step].gradient[k], norms);
        ASSERT_NEAR(weights[k], formulas[k].w, 1e-5) << one.name << ", step " << step;
      }
    }
  }
}

// Elements do not depend on each other, so pieces of a parameter are updated as the whole is.
TEST(OptimizersTest, PiecesHaveTheBitsOfTheWhole) {
  const Model model = MakeSixWeights();
  for (const OptimizerCase& one : ReadOptimizerCases()) {
    const OptimizerSpec spec = ParseOptimizer(one.spec);
    Optimizer whole = MakeWhole(one.spec, model);
    Optimizer pieces(spec, model, MakeSlots(spec, model), {{0, 0, 1}, {0, 1, 6}});
    std::vector<float> a = one.start;
    std::vector<float> b = one.start;
    for (size_t step = 0; step < one.steps.size(); ++step) {
      const std::span<const float> gradient = one.steps[step].gradient;
      const UpdateStep update = UpdateOf(step, one.steps[step].rate);
      whole.SetNorms({{NormOfAll(a), NormOfAll(gradient)}});
      pieces.SetNorms({{NormOfAll(a), NormOfAll(gradient)}});
      whole.Apply(0, update, 0.5f, gradient, a);
      pieces.Apply(0, update, 0.5f, gradient.first(1), std::span(b).first(1));
      pieces.Apply(1, update, 0.5f, gradient.subspan(1), std::span(b).subspan(1));
      ASSERT_EQ(a, b) << one.name << ", step " << step;
    }
  }
}

// A run that continues from a checkpoint has the slots of its last step.
TEST(OptimizersTest, SlotsAreTheWholeState) {
  const Model model = MakeSixWeights();
  for (const OptimizerCase& one : ReadOptimizerCases()) {
    const OptimizerSpec spec = ParseOptimizer(one.spec);
    std::vector<float> weights = one.start;
    Slots slots = MakeSlots(spec, model);
    for (size_t step = 0; step < one.steps.size(); ++step) {
      Optimizer optimizer(spec, model, std::move(slots), WholeParameters(model));
      optimizer.SetNorms({{1, 1}});
      optimizer.Apply(0, UpdateOf(step, one.steps[step].rate), 1, one.steps[step].gradient,
                      weights);
      slots = optimizer.slots();
    }
    Optimizer optimizer = MakeWhole(one.spec, model);
    optimizer.SetNorms({{1, 1}});
    std::vector<float> expected = one.start;
    for (size_t step = 0; step < one.steps.size(); ++step) {
      optimizer.Apply(0, UpdateOf(step, one.steps[step].rate), 1, one.steps[step].gradient,
                      expected);
    }
    EXPECT_EQ(weights, expected) << one.name;
  }
}

TEST(OptimizersTest, LarsTakesABiasOrAParameterOfZerosAsSgdDoes) {
  const Model model = MakeSixWeights();
  Optimizer lars = MakeWhole("lars { momentum: 0.5 }", model);
  Optimizer sgd = MakeWhole("momentum: 0.5", model);
  lars.SetNorms({{0, 1}, {1, 1}});
  for (const size_t i : {0, 1}) {
    std::vector<float> a(i == 0 ? 6 : 2, static_cast<float>(i));
    std::vector<float> b = a;
    const std::vector<float> gradient(a.size(), 3);
    lars.Apply(i, {0, 1, 0.1}, 1, gradient, a);
    sgd.Apply(i, {0, 1, 0.1}, 1, gradient, b);
    EXPECT_EQ(a, b) << i;
  }
}

}  // namespace
}  // namespace millrace::trainer
