#include "trainer/backend/onednn/value_memory.h"

namespace millrace::trainer {

using dnnl::memory;
using Tag = memory::format_tag;

namespace {

memory::desc DescOf(int64_t rows, const Shape& shape) {
  if (shape.rank() == 1) return {{rows, shape[0]}, kF32, Tag::nc};
  return {{rows, shape[2], shape[0], shape[1]}, kF32, Tag::nhwc};
}

}  // namespace

ValueMemory::ValueMemory(const Model& model, int64_t rows, bool is_training,
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
    data_[input.value] = memory(desc, engine, nullptr);
    input_views_.push_back({data_[input.value]});
  }
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    const memory::desc desc = DescOf(rows, model.values[layer.output].shape);
    is_in_place_.push_back(MayWorkInPlace(i));
    const int source = layer.inputs[0];
    data_[layer.output] = is_in_place_[i] ? data_[source] : memory(desc, engine);
    if (!is_training) continue;
    gradients_[layer.output] = is_in_place_[i] ? gradients_[source] : memory(desc, engine);
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
  const Layer& layer = model_.layers[i];
  const int source = layer.inputs[0];
  return layer.kind == LayerKind::kRelu && makers_[source] >= 0 && readers_[source].size() == 1;
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

memory ValueMemory::Flattened(const memory& image) {
  const int64_t values = static_cast<int64_t>(Floats(image).size()) / rows_;
  memory flat({{rows_, values}, kF32, Tag::nc}, engine_, image.get_data_handle());
  for (size_t i = 0; i < model_.inputs.size(); ++i) {
    if (image.get() == data_[model_.inputs[i].value].get()) input_views_[i].push_back(flat);
  }
  return flat;
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
