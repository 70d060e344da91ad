// The lives of a network's buffers. Layer i runs forward at time i and backward at 2 n - i, where n
// is the number of layers; the losses run at n.

#include <algorithm>

#include "trainer/backend/onednn/value_memory.h"

namespace millrace::trainer {

using dnnl::memory;

namespace {

bool ReadsSourceBackward(LayerKind kind) {
  switch (kind) {
    case LayerKind::kMaxPool:
    case LayerKind::kAveragePool:
    case LayerKind::kGlobalAveragePool:
    case LayerKind::kAdd:
    case LayerKind::kConcat:
    case LayerKind::kReshape:
    case LayerKind::kDropout:
    case LayerKind::kRelu:
    case LayerKind::kSigmoid:
    case LayerKind::kTanh:
      return false;
    default:
      return true;
  }
}

bool ReadsOutputBackward(LayerKind kind) {
  return kind == LayerKind::kRelu || kind == LayerKind::kSigmoid || kind == LayerKind::kTanh ||
         kind == LayerKind::kMaxPool;
}

}  // namespace

memory ValueMemory::NewBuffer(const memory::desc& desc) {
  memory made(desc, engine_, nullptr);
  buffers_.push_back({desc.get_size()});
  buffer_of_[made.get()] = buffers_.size() - 1;
  placed_.emplace_back(made, buffers_.size() - 1);
  return made;
}

// Those of a batch norm's addend are written when the norm runs.
void ValueMemory::AddTerms(size_t i) {
  const Layer& layer = model_.layers[i];
  for (size_t slot = 0; slot < layer.inputs.size(); ++slot) {
    const int value = layer.inputs[slot];
    if (!gradients_[value] || WritesFirst(i, slot) || more_gradients_[value]) continue;
    const memory term = NewBuffer(gradients_[value].get_desc());
    terms_[{i, slot}] = term;
    if (fusion_.host(i) >= 0) {
      Use(term, 2 * static_cast<int64_t>(model_.layers.size()) - fusion_.host(i));
    }
  }
}

memory ValueMemory::term(size_t layer, size_t slot) const {
  const auto found = terms_.find({layer, slot});
  return found == terms_.end() ? memory() : found->second;
}

void ValueMemory::Use(const memory& memory, int64_t time) {
  if (!memory) return;
  const auto found = buffer_of_.find(memory.get());
  if (found != buffer_of_.end()) buffers_[found->second].Extend(time);
}

// Inputs are there before the first layer.
void ValueMemory::UseForward(size_t i, bool is_training) {
  const Layer& layer = model_.layers[i];
  const auto time = static_cast<int64_t>(i);
  for (const int input : layer.inputs) {
    if (wiring_.maker(input) < 0) Use(data_[input], -1);
    Use(data_[input], time);
  }
  Use(data_[layer.output], time);
  if (is_training && fusion_.norm(i).add >= 0) Use(data_[fusion_.norm(i).addend], time);
}

void ValueMemory::UseLosses(bool is_training) {
  const auto time = static_cast<int64_t>(model_.layers.size());
  for (const Loss& loss : model_.losses) {
    Use(data_[loss.input], time);
    if (is_training) Use(gradients_[loss.input], time);
  }
}

void ValueMemory::UseBackward(size_t i) {
  const Layer& layer = model_.layers[i];
  const int64_t time = 2 * static_cast<int64_t>(model_.layers.size()) - static_cast<int64_t>(i);
  Use(gradients_[layer.output], time);
  Use(more_gradients_[layer.output], time);
  if (ReadsOutputBackward(layer.kind)) Use(data_[layer.output], time);
  for (size_t slot = 0; slot < layer.inputs.size(); ++slot) {
    const int input = layer.inputs[slot];
    Use(gradients_[input], time);
    Use(more_gradients_[input], time);
    Use(term(i, slot), time);
    if (ReadsSourceBackward(layer.kind)) Use(data_[input], time);
  }
  const FusedNorm& fused = fusion_.norm(i);
  const int last = fused.relu >= 0 ? fused.relu : fused.add;
  if (last < 0) return;
  const int result = model_.layers[last].output;
  Use(gradients_[result], time);
  Use(more_gradients_[result], time);
  if (fused.add < 0) return;
  Use(data_[result], time);
  Use(gradients_[fused.addend], time);
  Use(more_gradients_[fused.addend], time);
}

// The gradients of inputs are read after the backward pass, which may run again, so that it has to
// leave all values as they are.
void ValueMemory::UseAfterwards() {
  const auto time = 2 * static_cast<int64_t>(model_.layers.size()) + 1;
  for (const memory& value : data_) Use(value, time);
  for (const ModelInput& input : model_.inputs) Use(gradients_[input.value], time);
}

void ValueMemory::Place() {
  for (BufferLife& buffer : buffers_) {
    if (buffer.first > buffer.last) buffer.bytes = 0;
  }
  plan_ = PlanArena(buffers_);
  arena_ = AllocateArena(plan_.bytes);
  for (auto& [memory, buffer] : placed_) {
    memory.set_data_handle(static_cast<std::byte*>(arena_.get()) + plan_.offsets[buffer]);
  }
}

}  // namespace millrace::trainer
