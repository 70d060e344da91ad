// Networks against PyTorch: loss and gradients as fixtures/make_layers.py has written them.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "tests/trainer/model/test_nets.h"

namespace millrace::trainer {
namespace {

using nlohmann::json;

constexpr int64_t kRows = 4;

float ValueOf(size_t tensor, size_t k) {
  return static_cast<float>(
      0.8 * std::sin(12.9898 * static_cast<double>(k) + 7.233 * static_cast<double>(tensor) + 0.3));
}

void Fill(size_t tensor, std::vector<float>& values) {
  for (size_t k = 0; k < values.size(); ++k) values[k] = ValueOf(tensor, k);
}

double LargestOf(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) largest = std::max<double>(largest, std::abs(value));
  return largest;
}

// Tolerances are those of float32 sums of some hundred products, relative to the tensor's largest
// gradient.
void CheckGradient(const json& expected, const std::vector<float>& actual) {
  const double tolerance = 1e-5 * LargestOf(actual) + 1e-5;
  const std::vector<double> first = expected["first"];
  for (size_t k = 0; k < first.size(); ++k) EXPECT_NEAR(actual[k], first[k], tolerance) << k;
  EXPECT_NEAR(std::accumulate(actual.begin(), actual.end(), 0.0), expected["sum"].get<double>(),
              tolerance * static_cast<double>(actual.size()));
}

// Running statistics after one batch from (0, 1).
void CheckStatistics(const json& expected, const Model& model, const TensorSet& statistics) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const Buffer& buffer = model.buffers[i];
    for (size_t c = 0; c < statistics[i].size(); ++c) {
      const double now =
          (1 - buffer.momentum) * buffer.initial + buffer.momentum * statistics[i][c];
      EXPECT_NEAR(now, expected[i][c].get<double>(), 1e-5) << buffer.name;
    }
  }
}

void CheckCase(const json& expected) {
  const Model model = MakeModel(expected["model"]);
  Samples samples(model, kRows, 0, 0);
  Fill(0, samples.images);
  for (int64_t row = 0; row < kRows; ++row) samples.labels[row] = row % 3;
  StepInput input = samples.All();
  const std::vector<float> target = expected["target"];
  const Shape target_shape = model.losses[0].shape.Prepend(kRows);
  if (!target.empty()) input.targets[0] = {target.data(), DType::kF32, target_shape};
  TensorSet weights = MakeZeros(model);
  for (size_t i = 0; i < weights.size(); ++i) Fill(i + 1, weights[i]);
  const TensorSet buffers = MakeInitialBuffers(model);
  TensorSet gradients = MakeZeros(model);
  auto backend = MakeOneDnnBackend(model, weights, buffers, Spans(gradients), 2);
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto result = TrainStep(**backend, input, [](size_t) { return absl::OkStatus(); });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->loss_sum / kRows, expected["loss"].get<double>(), 1e-5);
  ASSERT_EQ(expected["gradients"].size(), gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    SCOPED_TRACE(model.parameters[i].name);
    CheckGradient(expected["gradients"][i], gradients[i]);
  }
  const auto network = (*backend)->Compile(kRows, NetworkUse::kTraining);
  ASSERT_TRUE(network.ok());
  CheckStatistics(expected["running"], model, (*network)->statistics());
}

TEST(NetworksTest, LossesAndGradientsArePyTorchs) {
  const char* const root = std::getenv("MILLRACE_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "MILLRACE_SOURCE_DIR is not set";
  std::ifstream file(std::string(root) + "/tests/trainer/backend/fixtures/layers.json");
  const json cases = json::parse(file);
  EXPECT_GE(cases.size(), 15u);
  for (const json& one : cases) {
    SCOPED_TRACE(one["name"].get<std::string>());
    CheckCase(one);
  }
}

}  // namespace
}  // namespace millrace::trainer
