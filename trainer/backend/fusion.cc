#include "trainer/backend/fusion.h"

#include <algorithm>

namespace millrace::trainer {

Wiring::Wiring(const Model& model)
    : layers_(model.layers.size()),
      readers_(model.values.size()),
      makers_(model.values.size(), -1) {
  for (size_t i = 0; i < layers_; ++i) {
    const Layer& layer = model.layers[i];
    makers_[layer.output] = static_cast<int>(i);
    for (size_t slot = 0; slot < layer.inputs.size(); ++slot) {
      readers_[layer.inputs[slot]].push_back({i, slot});
    }
  }
  for (size_t i = 0; i < model.losses.size(); ++i) {
    readers_[model.losses[i].input].push_back({layers_ + i, 0});
  }
}

int Wiring::only_reader(int value) const {
  const std::vector<Reader>& readers = readers_[value];
  const bool is_layer = readers.size() == 1 && readers[0].layer < layers_;
  return is_layer ? static_cast<int>(readers[0].layer) : -1;
}

namespace {

// The other term of an addition that a batch norm may do, because it is there when the norm is, and
// no layer between the two reads it; -1: it may not.
int AddendOf(const Model& model, const Wiring& wiring, int norm, int add) {
  const Layer& layer = model.layers[add];
  const int mine = model.layers[norm].output;
  if (layer.kind != LayerKind::kAdd || layer.inputs.size() != 2) return -1;
  const int other = layer.inputs[layer.inputs[0] == mine ? 1 : 0];
  if (wiring.maker(other) >= norm) return -1;
  const bool is_read_between =
      std::ranges::any_of(wiring.readers(other), [&](const Wiring::Reader& reader) {
        return static_cast<int>(reader.layer) > norm && static_cast<int>(reader.layer) < add;
      });
  return is_read_between ? -1 : other;
}

}  // namespace

Fusion::Fusion(const Model& model, const Wiring& wiring, bool is_on)
    : norms_(model.layers.size()), hosts_(model.layers.size(), -1) {
  for (size_t i = 0; is_on && i < model.layers.size(); ++i) {
    if (model.layers[i].kind == LayerKind::kBatchNorm) {
      FuseNorm(model, wiring, static_cast<int>(i));
    }
  }
}

void Fusion::FuseNorm(const Model& model, const Wiring& wiring, int norm) {
  FusedNorm& fused = norms_[norm];
  int reader = wiring.only_reader(model.layers[norm].output);
  if (reader < 0) return;
  const int addend = AddendOf(model, wiring, norm, reader);
  if (addend >= 0) {
    fused.add = reader;
    fused.addend = addend;
    hosts_[reader] = norm;
    reader = wiring.only_reader(model.layers[reader].output);
  }
  if (reader < 0 || model.layers[reader].kind != LayerKind::kRelu) return;
  fused.relu = reader;
  hosts_[reader] = norm;
}

int HostOfRelu(const Model& model, const Wiring& wiring, int i) {
  if (model.layers[i].kind != LayerKind::kRelu) return -1;
  const int maker = wiring.maker(model.layers[i].inputs[0]);
  if (maker < 0 || wiring.only_reader(model.layers[maker].output) != i) return -1;
  const LayerKind kind = model.layers[maker].kind;
  const bool may = kind == LayerKind::kConvolution || kind == LayerKind::kFullyConnected;
  return may ? maker : -1;
}

}  // namespace millrace::trainer
