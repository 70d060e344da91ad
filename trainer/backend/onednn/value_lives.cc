// The buffers of a network's memories, and the layers that use them.

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
  uses_.bytes.push_back(desc.get_size());
  buffer_of_[made.get()] = uses_.bytes.size() - 1;
  placed_.emplace_back(made, uses_.bytes.size() - 1);
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
    if (fusion_.host(i) >= 0) Use(term, uses_.layers[fusion_.host(i)].backward);
  }
}

memory ValueMemory::term(size_t layer, size_t slot) const {
  const auto found = terms_.find({layer, slot});
  return found == terms_.end() ? memory() : found->second;
}

void ValueMemory::Use(const memory& memory, std::vector<size_t>& users) const {
  if (!memory) return;
  const auto found = buffer_of_.find(memory.get());
  if (found != buffer_of_.end()) users.push_back(found->second);
}

void ValueMemory::UseForward(size_t i, bool is_training) {
  const Layer& layer = model_.layers[i];
  LayerUses& uses = uses_.layers[i];
  uses.multiply_adds = layer.multiply_adds;
  for (const int input : layer.inputs) {
    if (wiring_.maker(input) < 0) Use(data_[input], uses_.inputs);
    Use(data_[input], uses.forward);
  }
  Use(data_[layer.output], uses.forward);
  Use(data_[layer.output], uses.results);
  if (is_training && fusion_.norm(i).add >= 0) Use(data_[fusion_.norm(i).addend], uses.forward);
}

void ValueMemory::UseLosses(bool is_training) {
  for (const Loss& loss : model_.losses) {
    Use(data_[loss.input], uses_.losses);
    if (is_training) Use(gradients_[loss.input], uses_.losses);
  }
}

void ValueMemory::UseBackward(size_t i) {
  const Layer& layer = model_.layers[i];
  std::vector<size_t>& users = uses_.layers[i].backward;
  Use(gradients_[layer.output], users);
  Use(more_gradients_[layer.output], users);
  if (ReadsOutputBackward(layer.kind)) Use(data_[layer.output], users);
  for (size_t slot = 0; slot < layer.inputs.size(); ++slot) {
    const int input = layer.inputs[slot];
    Use(gradients_[input], users);
    Use(more_gradients_[input], users);
    Use(term(i, slot), users);
    if (ReadsSourceBackward(layer.kind)) Use(data_[input], users);
  }
  const FusedNorm& fused = fusion_.norm(i);
  const int last = fused.relu >= 0 ? fused.relu : fused.add;
  if (last < 0) return;
  const int result = model_.layers[last].output;
  Use(gradients_[result], users);
  Use(more_gradients_[result], users);
  if (fused.add < 0) return;
  Use(data_[result], users);
  Use(gradients_[fused.addend], users);
  Use(more_gradients_[fused.addend], users);
}

// The gradients of inputs are read after the backward pass, which may run again, so that it has to
// leave all values as they are.
void ValueMemory::UseAfterwards() {
  for (const memory& value : data_) Use(value, uses_.afterwards);
  for (const ModelInput& input : model_.inputs) {
    Use(gradients_[input.value], uses_.outputs);
  }
}

void ValueMemory::Plan(bool recomputes) {
  segmentation_ = recomputes ? ChooseSegmentation(uses_) : CutLayers(uses_, {});
  plan_ = PlanArena(LivesOf(uses_, segmentation_));
}

void ValueMemory::Allocate() {
  arena_ = AllocateArena(plan_.bytes);
  for (auto& [memory, buffer] : placed_) {
    memory.set_data_handle(static_cast<std::byte*>(arena_.get()) + plan_.offsets[buffer]);
  }
}

}  // namespace millrace::trainer
