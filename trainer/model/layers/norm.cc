#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/model/layers/families.h"

namespace millrace::trainer {
namespace {

absl::Status BuildBatchNorm(NewLayer& layer) {
  const BatchNorm& spec = layer.spec.batch_norm();
  const double momentum = spec.has_momentum() ? spec.momentum() : 0.1;
  const double epsilon = spec.has_epsilon() ? spec.epsilon() : 1e-5;
  if (!(momentum >= 0 && momentum <= 1)) {
    return BadLayer(absl::StrCat("momentum ", momentum, " is not from 0 to 1"));
  }
  if (!(epsilon > 0 && epsilon <= 1)) {
    return BadLayer(absl::StrCat("epsilon ", epsilon, " is not over 0 and at most 1"));
  }
  const Shape& input = layer.inputs[0];
  const Shape channels = {input[input.rank() - 1]};
  layer.layer.kind = LayerKind::kBatchNorm;
  layer.layer.attributes = Normalization{momentum, epsilon, spec.synchronized()};
  layer.layer.weights = 0;
  layer.layer.bias = 1;
  layer.layer.mean = 0;
  layer.layer.variance = 1;
  layer.output = input;
  Parameter weights{"weights", channels};
  weights.initial = {spec.zero_weights() ? Distribution::kZeros : Distribution::kOnes};
  layer.parameters = {std::move(weights), MakeBias(channels[0])};
  layer.buffers.push_back({"running_mean", channels, momentum, 0});
  layer.buffers.push_back({"running_var", channels, momentum, 1});
  return absl::OkStatus();
}

absl::Status BuildDropout(NewLayer& layer) {
  const Dropout& spec = layer.spec.dropout();
  const double rate = spec.has_rate() ? spec.rate() : 0.5;
  if (!(rate >= 0 && rate < 1)) {
    return BadLayer(absl::StrCat("rate ", rate, " is not from 0 to less than 1"));
  }
  layer.layer.kind = LayerKind::kDropout;
  layer.layer.attributes = DropRate{rate};
  layer.output = layer.inputs[0];
  return absl::OkStatus();
}

constexpr LayerOption kNormOptions[] = {
    {"momentum", "part of a batch in the running means", "0.1"},
    {"epsilon", "added to the variance", "1e-5"},
    {"zero_weights",
     "true if weights begin with zeros, not ones: a residual block then begins as "
     "its shortcut",
     "false"},
    {"synchronized",
     "true if the batch is the rows of all ranks, as PyTorch's SyncBatchNorm has it", "false"},
};
constexpr LayerOption kDropoutOptions[] = {
    {"rate", "probability of a value to become zero", "0.5"},
};

}  // namespace

LayerFamily NormLayers() {
  static constexpr std::array kRows = {
      LayerRow{LayerSpec::kBatchNorm, "bn", BuildBatchNorm,
               "Each channel less its mean, divided by its deviation; times a weight, plus a bias.",
               kNormOptions},
      LayerRow{LayerSpec::kDropout, "dropout", BuildDropout,
               "In training some values become zero, and the others are divided by 1 - rate.",
               kDropoutOptions},
  };
  return kRows;
}

}  // namespace millrace::trainer
