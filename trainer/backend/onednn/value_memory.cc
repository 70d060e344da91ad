#include "trainer/backend/onednn/value_memory.h"

#include <algorithm>

namespace millrace::trainer {

using dnnl::memory;
using Tag = memory::format_tag;

namespace {

memory::desc DescOf(int64_t rows, const Shape& shape) {
  if (shape.rank() == 1) return {{rows, shape[0]}, kF32, Tag::nc};
  return {{rows, shape[2], shape[0], shape[1]}, kF32, Tag::nhwc};
}

// True if the backward pass of a layer needs no result of its own, and the result has bytes of its
// own.
bool MayBeOverwritten(LayerKind kind) {
  return kind != LayerKind::kSigmoid && kind != LayerKind::kTanh && kind != LayerKind::kReshape &&
         kind != LayerKind::kDropout;
}

}  // namespace

ValueMemory::ValueMemory(const Model& model, int64_t rows, NetworkUse use,
                         const dnnl::engine& engine)
    : model_(model),
      rows_(rows),
      engine_(engine),
      makers_(model.values.size(), -1),
      data_(model.values.size()),
      gradients_(model.values.size()) {
  FindReaders();
  for (const ModelInput& input : model.inputs) {
    const memory::desc desc = DescOf(rows, model.values[input.value].shape);
    const bool is_in_batch = input.dtype == DType::kF32;
    data_[input.value] = is_in_batch ? memory(desc, engine, nullptr) : memory(desc, engine);
    input_views_.emplace_back();
    if (!is_in_batch) continue;
    input_views_.back().push_back(data_[input.value]);
    if (use == NetworkUse::kInputGradients) gradients_[input.value] = memory(desc, engine);
  }
  for (size_t i = 0; i < model.layers.size(); ++i) AddOutput(i, IsTraining(use));
}

void ValueMemory::AddOutput(size_t i, bool is_training) {
  const Layer& layer = model_.layers[i];
  const memory::desc desc = DescOf(rows_, model_.values[layer.output].shape);
  const int source = layer.inputs[0];
  const bool is_view =
      layer.kind == LayerKind::kReshape || (layer.kind == LayerKind::kDropout && !is_training);
  is_in_place_.push_back(MayWorkInPlace(i));
  memory& data = data_[layer.output];
  memory& gradient = gradients_[layer.output];
  if (is_in_place_[i]) {
    data = data_[source];
    gradient = gradients_[source];
    return;
  }
  data = is_view ? View(data_[source], desc) : memory(desc, engine_);
  if (!is_training) return;
  const bool shares_gradient = is_view && readers_[source].size() == 1 && gradients_[source];
  gradient = shares_gradient ? View(gradients_[source], desc) : memory(desc, engine_);
  ShareGradientOfSum(layer);
}

// The gradient of a sum is that of each of its terms, where nothing else reads the term.
void ValueMemory::ShareGradientOfSum(const Layer& sum) {
  if (sum.kind != LayerKind::kAdd) return;
  for (const int term : sum.inputs) {
    if (readers_[term].size() == 1 && gradients_[term]) gradients_[term] = gradients_[sum.output];
  }
}

void ValueMemory::FindReaders() {
  readers_.resize(model_.values.size());
  const size_t layers = model_.layers.size();
  for (size_t i = 0; i < layers; ++i) {
    const Layer& layer = model_.layers[i];
    makers_[layer.output] = static_cast<int>(i);
    for (size_t slot = 0; slot < layer.inputs.size(); ++slot) {
      readers_[layer.inputs[slot]].push_back({i, slot});
    }
  }
  for (size_t i = 0; i < model_.losses.size(); ++i) {
    readers_[model_.losses[i].input].push_back({layers + i, 0});
  }
}

bool ValueMemory::MayWorkInPlace(size_t i) const {
  const int source = model_.layers[i].inputs[0];
  if (model_.layers[i].kind != LayerKind::kRelu || makers_[source] < 0) return false;
  return readers_[source].size() == 1 && MayBeOverwritten(model_.layers[makers_[source]].kind);
}

bool ValueMemory::HasFusedRelu(size_t i) const {
  const LayerKind kind = model_.layers[i].kind;
  if (kind != LayerKind::kConvolution && kind != LayerKind::kFullyConnected) return false;
  const std::vector<Reader>& readers = readers_[model_.layers[i].output];
  return readers.size() == 1 && readers[0].layer < model_.layers.size() &&
         is_in_place_[readers[0].layer];
}

bool ValueMemory::IsFused(size_t i) const {
  const int maker = makers_[model_.layers[i].inputs[0]];
  return is_in_place_[i] && HasFusedRelu(maker);
}

bool ValueMemory::WritesFirst(size_t i, size_t slot) const {
  const std::vector<Reader>& readers = readers_[model_.layers[i].inputs[slot]];
  const size_t last = readers.back().layer;
  for (const Reader& reader : readers) {
    if (reader.layer == last) return i == last && slot == reader.slot;
  }
  return false;
}

memory ValueMemory::View(const memory& whole, const memory::desc& desc) {
  memory view(desc, engine_, whole.get_data_handle());
  for (std::vector<memory>& views : input_views_) {
    const bool is_input =
        std::ranges::any_of(views, [&](const memory& input) { return input.get() == whole.get(); });
    if (is_input) views.push_back(view);
  }
  return view;
}

void ValueMemory::SetInput(size_t i, const void* batch) {
  // oneDNN takes no const pointers; no primitive writes to an input.
  for (memory& view : input_views_[i]) view.set_data_handle(const_cast<void*>(batch));
}

std::span<float> ValueMemory::Floats(const memory& memory) {
  return {static_cast<float*>(memory.get_data_handle()),
          memory.get_desc().get_size() / sizeof(float)};
}

}  // namespace millrace::trainer
