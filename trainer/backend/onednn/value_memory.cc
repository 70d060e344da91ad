#include "trainer/backend/onednn/value_memory.h"

#include <algorithm>

#include "trainer/backend/onednn/half_copies.h"
#include "trainer/backend/onednn/pool_kernels.h"

namespace millrace::trainer {

using dnnl::memory;
using Tag = memory::format_tag;

namespace {

// True if the backward pass of a layer needs no result of its own, and the result has bytes of its
// own.
bool MayBeOverwritten(LayerKind kind) {
  return kind != LayerKind::kSigmoid && kind != LayerKind::kTanh && kind != LayerKind::kReshape &&
         kind != LayerKind::kDropout;
}

}  // namespace

ValueMemory::ValueMemory(const Model& model, int64_t rows, NetworkUse use,
                         const BackendOptions& options, const dnnl::engine& engine)
    : model_(model),
      rows_(rows),
      type_(options.precision == Precision::kBFloat16 ? kHalf : kF32),
      fuses_(options.fuses),
      engine_(engine),
      wiring_(model),
      fusion_(model, wiring_, fuses_),
      data_(model.values.size()),
      gradients_(model.values.size()),
      more_gradients_(model.values.size()) {
  const bool is_training = IsTraining(use);
  uses_.layers.resize(model.layers.size());
  for (const ModelInput& input : model.inputs) AddInput(input, use);
  for (size_t i = 0; i < model.layers.size(); ++i) AddOutput(i, is_training);
  for (size_t value = 0; is_training && value < model.values.size(); ++value) {
    AddMoreGradient(static_cast<int>(value));
  }
  for (size_t i = 0; is_training && i < model.layers.size(); ++i) AddTerms(i);
  for (size_t i = 0; i < model.layers.size(); ++i) UseForward(i, is_training);
  UseLosses(is_training);
  for (size_t i = 0; is_training && i < model.layers.size(); ++i) UseBackward(i);
  if (use == NetworkUse::kInputGradients) UseAfterwards();
  Plan(is_training && options.recomputes_activations);
}

memory::desc ValueMemory::DescOf(int value, memory::data_type type) const {
  const Shape& shape = model_.values[value].shape;
  if (shape.rank() == 1) return {{rows_, shape[0]}, type, Tag::nc};
  return {{rows_, shape[2], shape[0], shape[1]}, type, Tag::nhwc};
}

// A product that only losses read is not rounded.
memory::data_type ValueMemory::TypeOf(int value) const {
  const int maker = wiring_.maker(value);
  const bool is_of_product = maker >= 0 && model_.layers[maker].kind == LayerKind::kFullyConnected;
  const bool is_last = std::ranges::all_of(wiring_.readers(value), [&](const Reader& reader) {
    return reader.layer >= model_.layers.size();
  });
  return is_of_product && is_last ? kF32 : type_;
}

void ValueMemory::AddInput(const ModelInput& input, NetworkUse use) {
  const memory::desc desc = DescOf(input.value, type_);
  const bool is_in_batch = input.dtype == DType::kF32 && type_ == kF32;
  data_[input.value] = is_in_batch ? memory(desc, engine_, nullptr) : NewBuffer(desc);
  input_views_.emplace_back();
  if (is_in_batch) input_views_.back().push_back(data_[input.value]);
  if (use == NetworkUse::kInputGradients && input.dtype == DType::kF32) {
    gradients_[input.value] = NewBuffer(desc);
  }
}

void ValueMemory::AddOutput(size_t i, bool is_training) {
  const Layer& layer = model_.layers[i];
  const int host = fusion_.host(i);
  // A fused layer's result lies where that of the batch norm would.
  const int source = host >= 0 ? model_.layers[host].output : layer.inputs[0];
  const bool is_view =
      layer.kind == LayerKind::kReshape || (layer.kind == LayerKind::kDropout && !is_training);
  is_in_place_.push_back(host >= 0 || MayWorkInPlace(i));
  memory& data = data_[layer.output];
  memory& gradient = gradients_[layer.output];
  if (is_in_place_[i]) {
    data = data_[source];
    gradient = gradients_[source];
    if (is_training) ShareGradientOfSum(layer);
    return;
  }
  data = is_view ? View(data_[source], DescOf(layer.output, type_))
                 : NewBuffer(DescOf(layer.output, TypeOf(layer.output)));
  if (!is_training) return;
  const memory::desc desc = DescOf(layer.output, type_);
  const bool shares_gradient = is_view && wiring_.readers(source).size() == 1 && gradients_[source];
  gradient = shares_gradient ? View(gradients_[source], desc) : NewBuffer(desc);
  ShareGradientOfSum(layer);
}

// The gradient of a sum is that of each of its terms, where nothing else reads the term, and no
// batch norm puts its mask over it.
void ValueMemory::ShareGradientOfSum(const Layer& sum) {
  if (sum.kind != LayerKind::kAdd) return;
  for (const int term : sum.inputs) {
    const int maker = wiring_.maker(term);
    if (maker >= 0 && fusion_.host(maker) >= 0) continue;
    if (wiring_.readers(term).size() == 1 && gradients_[term]) {
      gradients_[term] = gradients_[sum.output];
    }
  }
}

// True for the last result of a batch norm and the layers that it does.
bool ValueMemory::IsOfNorm(int value) const {
  const int maker = wiring_.maker(value);
  if (maker < 0) return false;
  const bool is_norm = model_.layers[maker].kind == LayerKind::kBatchNorm;
  const int host = is_norm ? maker : fusion_.host(maker);
  if (host < 0) return false;
  const FusedNorm& fused = fusion_.norm(host);
  const int last = fused.relu >= 0 ? fused.relu : (fused.add >= 0 ? fused.add : host);
  return maker == last;
}

// The second of two readers of a batch norm's result. The gradient of a term that a batch norm adds
// is there already: that of the sum.
void ValueMemory::AddMoreGradient(int value) {
  const std::vector<Reader>& readers = wiring_.readers(value);
  if (readers.size() != 2 || readers[0].layer == readers[1].layer || !IsOfNorm(value)) return;
  const bool is_of_losses = readers[0].layer >= model_.layers.size();  // which give their sum
  if (!fuses_ || is_of_losses) return;
  for (const Reader& reader : readers) {
    if (reader.layer >= model_.layers.size() || fusion_.host(reader.layer) < 0) continue;
    more_gradients_[value] = gradients_[model_.layers[reader.layer].output];
    return;
  }
  more_gradients_[value] = NewBuffer(gradients_[value].get_desc());
}

bool ValueMemory::MayWorkInPlace(size_t i) const {
  const int source = model_.layers[i].inputs[0];
  const int maker = wiring_.maker(source);
  if (model_.layers[i].kind != LayerKind::kRelu || maker < 0) return false;
  return wiring_.readers(source).size() == 1 && MayBeOverwritten(model_.layers[maker].kind);
}

bool ValueMemory::HasFusedRelu(size_t i) const {
  const LayerKind kind = model_.layers[i].kind;
  if (kind != LayerKind::kConvolution && kind != LayerKind::kFullyConnected) return false;
  const int reader = wiring_.only_reader(model_.layers[i].output);
  return reader >= 0 && model_.layers[reader].kind == LayerKind::kRelu && is_in_place_[reader];
}

bool ValueMemory::IsFused(size_t i) const {
  if (fusion_.host(i) >= 0) return true;
  const int maker = wiring_.maker(model_.layers[i].inputs[0]);
  return is_in_place_[i] && HasFusedRelu(maker);
}

bool ValueMemory::IsMasked(size_t i) const {
  const bool is_in_place = model_.layers[i].kind == LayerKind::kRelu && is_in_place_[i];
  if (!is_in_place || fusion_.host(i) >= 0 || !fuses_) return false;
  const int reader = wiring_.only_reader(model_.layers[i].output);
  if (reader < 0 || model_.layers[reader].kind != LayerKind::kMaxPool) return false;
  const auto [height, width] = model_.layers[reader].window().kernel;
  return height * width <= kMaxPoolPlaces;
}

bool ValueMemory::MasksSource(size_t i) const {
  const int maker = wiring_.maker(model_.layers[i].inputs[0]);
  return maker >= 0 && IsMasked(maker);
}

bool ValueMemory::WritesFirst(size_t i, size_t slot) const {
  const int value = model_.layers[i].inputs[slot];
  const std::vector<Reader>& readers = wiring_.readers(value);
  if (more_gradients_[value]) {  // the other reader writes there
    const Reader& other = readers[readers[0].layer == i ? 1 : 0];
    if (other.layer < model_.layers.size() && fusion_.host(other.layer) >= 0) return true;
  }
  const size_t last = readers.back().layer;
  for (const Reader& reader : readers) {
    if (reader.layer == last) return i == last && slot == reader.slot;
  }
  return false;
}

memory ValueMemory::View(const memory& whole, const memory::desc& desc) {
  memory view(desc, engine_, whole.get_data_handle());
  if (const auto found = buffer_of_.find(whole.get()); found != buffer_of_.end()) {
    buffer_of_[view.get()] = found->second;
    placed_.emplace_back(view, found->second);
  }
  for (std::vector<memory>& views : input_views_) {
    const bool is_input =
        std::ranges::any_of(views, [&](const memory& input) { return input.get() == whole.get(); });
    if (is_input) views.push_back(view);
  }
  return view;
}

void ValueMemory::SetInput(size_t i, std::span<const float> batch) const {
  if (type_ == kHalf) return CopyFloats(batch, data_[model_.inputs[i].value]);
  // oneDNN takes no const pointers; no primitive writes to an input.
  for (const memory& view : input_views_[i]) view.set_data_handle(const_cast<float*>(batch.data()));
}

std::span<float> ValueMemory::Floats(const memory& memory) {
  return {static_cast<float*>(memory.get_data_handle()),
          memory.get_desc().get_size() / sizeof(float)};
}

}  // namespace millrace::trainer
