#include "trainer/backend/cuda/values.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "trainer/backend/cuda/folding.h"
#include "trainer/backend/cuda/pool_sizes.h"
#include "trainer/backend/cuda/products_of.h"

namespace millrace::trainer::cuda {
namespace {

// True if the backward pass of a layer needs no result of its own, and the result has bytes of its
// own.
bool MayBeOverwritten(LayerKind kind) {
  switch (kind) {
    case LayerKind::kConvolution:
    case LayerKind::kTransposedConvolution:
    case LayerKind::kFullyConnected:
    case LayerKind::kMaxPool:
    case LayerKind::kAveragePool:
    case LayerKind::kGlobalAveragePool:
    case LayerKind::kAdd:
    case LayerKind::kMultiply:
    case LayerKind::kConcat:
      return true;
    default:
      return false;
  }
}

}  // namespace

Values::Values(const Compiled& compiled, Buffers& buffers)
    : compiled_(compiled),
      model_(compiled.model),
      buffers_(buffers),
      wiring_(model_),
      fusion_(model_, wiring_, compiled.fuses),
      needs_gradient_(NeedsGradient(model_, compiled.use)),
      pools_(model_.layers.size(), -1),
      data_(model_.values.size()),
      folded_(model_.values.size()),
      gradients_(model_.values.size()) {
  for (size_t i = 0; i < pools_.size(); ++i) pools_[i] = FindPool(i);
  for (const ModelInput& input : model_.inputs) AddInput(input.value);
  for (size_t i = 0; i < model_.layers.size(); ++i) AddOutput(i);
}

int64_t Values::channels(int value) const { return DeviceChannels(model_, value, compiled_.type); }

int64_t Values::pixels(int value) const {
  const Shape& shape = model_.values[value].shape;
  return compiled_.rows * (shape.num_elements() / shape[shape.rank() - 1]);
}

int64_t Values::most_pixels() const {
  int64_t most = 1;
  for (size_t i = 0; i < data_.size(); ++i) most = std::max(most, pixels(static_cast<int>(i)));
  return most;
}

int64_t Values::most_channels() const {
  int64_t most = 1;
  for (size_t i = 0; i < data_.size(); ++i) most = std::max(most, channels(static_cast<int>(i)));
  return most;
}

Tensor Values::NewTensor(const std::string& name, int value, DType type) {
  return {buffers_.Add(name, static_cast<size_t>(count(value)) * SizeOf(type)), type};
}

// A product that only losses read is not rounded.
DType Values::TypeOf(int value) const {
  const int maker = wiring_.maker(value);
  const bool is_of_product = maker >= 0 && model_.layers[maker].kind == LayerKind::kFullyConnected;
  const bool is_last = std::ranges::all_of(
      wiring_.readers(value),
      [&](const Wiring::Reader& reader) { return reader.layer >= model_.layers.size(); });
  return is_of_product && is_last ? DType::kF32 : compiled_.type;
}

// Losses count as layers behind the last.
bool Values::ReadsFolded(size_t i) const {
  return i < model_.layers.size() && cuda::ReadsFolded(model_, i, compiled_.use, compiled_.type);
}

void Values::AddInput(int value) {
  const std::string& name = model_.values[value].name;
  const auto reads_folded = [&](const Wiring::Reader& reader) { return ReadsFolded(reader.layer); };
  if (std::ranges::any_of(wiring_.readers(value), reads_folded)) {
    const int64_t count = pixels(value) / 4 * kFoldedChannels;
    folded_[value] = {buffers_.Add(absl::StrCat("folded ", name),
                                   static_cast<size_t>(count) * SizeOf(compiled_.type)),
                      compiled_.type};
  }
  if (!std::ranges::all_of(wiring_.readers(value), reads_folded)) {
    data_[value] = NewTensor(name, value, compiled_.type);
  }
  if (!needs_gradient_[value]) return;
  gradients_[value] = NewTensor(absl::StrCat("gradient of ", name), value, compiled_.type);
}

void Values::AddOutput(size_t i) {
  const Layer& layer = model_.layers[i];
  const int host = fusion_.host(i);
  const int source = host >= 0 ? model_.layers[host].output : layer.inputs[0];
  const bool is_in_place = host >= 0 || MayWorkInPlace(i);
  const bool is_view = layer.kind == LayerKind::kReshape ||
                       (layer.kind == LayerKind::kDropout && !IsTraining(compiled_.use));
  const std::string& name = model_.values[layer.output].name;
  data_[layer.output] =
      is_in_place || is_view ? data_[source] : NewTensor(name, layer.output, TypeOf(layer.output));
  AddGradient(i, is_in_place || (is_view && wiring_.readers(source).size() == 1), source);
}

// `is_same`: the gradient may be that of `source`.
void Values::AddGradient(size_t i, bool is_same, int source) {
  const Layer& layer = model_.layers[i];
  if (!needs_gradient_[layer.output]) return;
  const std::string name = absl::StrCat("gradient of ", model_.values[layer.output].name);
  gradients_[layer.output] = is_same && gradients_[source]
                                 ? gradients_[source]
                                 : NewTensor(name, layer.output, compiled_.type);
  ShareGradientOfSum(layer);
}

void Values::ShareGradientOfSum(const Layer& sum) {
  if (sum.kind != LayerKind::kAdd || fusion_.host(wiring_.maker(sum.output)) >= 0) return;
  for (const int term : sum.inputs) {
    if (wiring_.readers(term).size() == 1 && gradients_[term]) {
      gradients_[term] = gradients_[sum.output];
    }
  }
}

bool Values::MayWorkInPlace(size_t i) const {
  const int source = model_.layers[i].inputs[0];
  const int maker = wiring_.maker(source);
  if (model_.layers[i].kind != LayerKind::kRelu || maker < 0) return false;
  return wiring_.readers(source).size() == 1 && MayBeOverwritten(model_.layers[maker].kind);
}

int Values::FindPool(size_t norm) const {
  const FusedNorm& fused = fusion_.norm(norm);
  if (fused.relu < 0 || fused.add >= 0) return -1;
  const int pool = wiring_.only_reader(model_.layers[fused.relu].output);
  if (pool < 0 || model_.layers[pool].kind != LayerKind::kMaxPool) return -1;
  const PoolArgs sizes = PoolSizes(model_, model_.layers[pool], compiled_.rows);
  return HasNormPool(sizes) ? pool : -1;
}

bool Values::HasFusedRelu(size_t i) const {
  const int reader = wiring_.only_reader(model_.layers[i].output);
  return compiled_.fuses && reader >= 0 &&
         HostOfRelu(model_, wiring_, reader) == static_cast<int>(i);
}

bool Values::IsFused(size_t i) const {
  const auto layer = static_cast<int>(i);
  if (fusion_.host(i) >= 0 || std::ranges::find(pools_, layer) != pools_.end()) return true;
  const int maker = wiring_.maker(model_.layers[i].inputs[0]);
  return maker >= 0 && model_.layers[i].kind == LayerKind::kRelu && HasFusedRelu(maker);
}

}  // namespace millrace::trainer::cuda
