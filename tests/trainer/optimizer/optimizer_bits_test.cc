// The bits of every optimizer, by digest: a change of its arithmetic that moves one must say so
// here. They hold for every set of instructions and number of threads.

#include <gmock/gmock.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/trainer/model/test_nets.h"
#include "tests/trainer/optimizer/optimizer_specs.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/square_sum.h"

namespace millrace::trainer {
namespace {

constexpr size_t kCount = 301 * 67;

Model MakeWide() {
  return MakeModel(R"(layer { input_layer { shape: 301 } }
    layer { fully_connected { outputs: 67 } } layer { softmax_cross_entropy {} })");
}

// A multiple of 2^-20 in [-1, 1), of many magnitudes.
float Value(uint64_t seed, size_t k) {
  const uint64_t mixed = (seed * 1000003 + k) * 0x9e3779b97f4a7c15ull;
  const auto whole = static_cast<int64_t>(mixed >> 43) - (int64_t{1} << 20);
  return static_cast<float>(whole >> (mixed % 13)) * 0x1p-20f;
}

std::vector<float> Values(uint64_t seed) {
  std::vector<float> values(kCount);
  for (size_t k = 0; k < kCount; ++k) values[k] = Value(seed, k);
  return values;
}

ParameterNorms NormsOf(const std::vector<float>& weights, const std::vector<float>& gradient) {
  double squares[4] = {};
  AddSquares(weights, LargestMagnitude(weights), kCount, squares);
  AddSquares(gradient, LargestMagnitude(gradient), kCount, squares + 2);
  return {NormOf(squares), NormOf(squares + 2)};
}

// The digest of weights and slots after some updates.
std::string DigestOf(const std::string& spec) {
  const Model model = MakeWide();
  Optimizer optimizer = MakeWhole(spec, model);
  std::vector<float> weights = Values(1);
  for (uint64_t n = 1; n <= 4; ++n) {
    const std::vector<float> gradient = Values(1 + n);
    optimizer.SetNorms({NormsOf(weights, gradient), {}});
    optimizer.Apply(0, {static_cast<int64_t>(n) - 1, n, 0.01}, 0.75f, gradient, weights);
  }
  TensorSet all = {weights};
  for (const Slot& slot : optimizer.slots()) all.push_back(slot.tensors[0]);
  return absl::StrFormat("%016x", Digest(all));
}

TEST(OptimizerBitsTest, EveryOptimizerHasThoseOfItsDigest) {
  const std::map<std::string, std::string> digests = {
      {"momentum: 0.9 weight_decay: 0.01", "22905ad64e245f5a"},
      {"momentum: 0.9 nesterov: true", "bef13d97ff953203"},
      {"adam {} weight_decay: 0.01", "8d482789d3a45655"},
      {"adamw { beta2: 0.95 } weight_decay: 0.01", "303d50c589836a3d"},
      {"rmsprop {}", "126ca0caa0662eb9"},
      {"rmsprop { momentum: 0.9 centered: true } weight_decay: 0.01", "bdebfbc25ca5ebe8"},
      {"lars {} weight_decay: 0.01", "6401701e532b6fcd"},
  };
  for (const auto& [spec, digest] : digests) EXPECT_EQ(DigestOf(spec), digest) << spec;
}

}  // namespace
}  // namespace millrace::trainer
