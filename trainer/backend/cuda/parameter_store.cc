#include "trainer/backend/cuda/parameter_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/kernels/update.h"

namespace millrace::trainer::cuda {
namespace {

// Each buffer begins at a multiple of so many elements.
constexpr size_t kBufferAlignment = 64;

size_t ElementsOf(const Shape& shape) { return static_cast<size_t>(shape.num_elements()); }

size_t RoomOf(const Buffer& buffer) {
  return (ElementsOf(buffer.shape) + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// A buffer as what is copied.
Parameter TensorOf(const Buffer& buffer) {
  Parameter tensor;
  tensor.name = buffer.name;
  tensor.shape = buffer.shape;
  return tensor;
}

Piece WholeOf(size_t parameter, const Shape& shape) { return {parameter, 0, ElementsOf(shape)}; }

bool HasProduct(const Layer& layer) {
  return layer.kind == LayerKind::kConvolution || layer.kind == LayerKind::kTransposedConvolution ||
         layer.kind == LayerKind::kFullyConnected;
}

absl::Status CheckCount(const char* what, size_t count, size_t wanted) {
  if (count == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(count, " tensors for a model of ", wanted, " ", what));
}

}  // namespace

ParameterStore::ParameterStore(Device& device, const Model& model, StoreOptions options)
    : device_(device),
      model_(model),
      options_(std::move(options)),
      layout_(LayOut(model, options_.gradients)),
      slot_layout_(LayOutSlots(layout_, options_.pieces)) {}

absl::StatusOr<std::unique_ptr<ParameterStore>> ParameterStore::Make(Device& device,
                                                                     const Model& model,
                                                                     StoreOptions options) {
  std::unique_ptr<ParameterStore> store(new ParameterStore(device, model, std::move(options)));
  MILLRACE_RETURN_IF_ERROR(Annotate(store->Allocate(), "memory of the model's tensors"));
  store->FillTensors();
  return store;
}

absl::Status ParameterStore::Allocate() {
  MILLRACE_ASSIGN_OR_RETURN(copier_, TensorCopier::Make(device_, model_));
  const size_t size = std::max<size_t>(1, layout_.size);
  MILLRACE_ASSIGN_OR_RETURN(masters_, device_.Allocate(size * sizeof(float)));
  if (options_.compute != DType::kF32) {
    MILLRACE_ASSIGN_OR_RETURN(compute_, device_.Allocate(size * SizeOf(options_.compute)));
  }
  if (options_.copies_gradients) {
    MILLRACE_ASSIGN_OR_RETURN(gradients_, device_.Allocate(size * sizeof(float)));
  }
  const size_t slot_size = std::max<size_t>(1, slot_layout_.size);
  for (size_t s = 0; s < options_.slots.size(); ++s) {
    MILLRACE_ASSIGN_OR_RETURN(slots_.emplace_back(), device_.Allocate(slot_size * sizeof(float)));
  }
  size_t buffer_size = 1;
  for (const Buffer& buffer : model_.buffers) buffer_size += RoomOf(buffer);
  MILLRACE_ASSIGN_OR_RETURN(buffers_, device_.Allocate(buffer_size * sizeof(float)));
  MILLRACE_ASSIGN_OR_RETURN(found_, device_.Allocate(sizeof(uint32_t)));
  return absl::OkStatus();
}

float* ParameterStore::gradient_at(size_t parameter) const {
  if (options_.copies_gradients) return As<float>(gradients_) + layout_.offsets[parameter];
  return options_.gradients.empty() ? nullptr : options_.gradients[parameter].memory;
}

void* ParameterStore::compute_at(size_t offset) const {
  if (options_.compute == DType::kF32) return nullptr;
  return compute_.get() + offset * SizeOf(options_.compute);
}

float* ParameterStore::slot_at(size_t s, size_t parameter) const {
  const SlotLayout::Range& range = slot_layout_.ranges[layout_.region_of[parameter]];
  const size_t begin = layout_.offset_in_region(parameter) + slot_layout_.pieces[parameter].begin;
  return slot(s) + range.offset + (begin - range.begin);
}

void ParameterStore::FillTensors() {
  for (size_t i = 0; i < model_.parameters.size(); ++i) {
    tensors_.parameters.push_back({masters() + layout_.offsets[i], nullptr, gradient_at(i)});
  }
  for (const Layer& layer : model_.layers) {
    if (!HasProduct(layer) || layer.weights < 0) continue;
    DeviceTensors::Parameter& weights = tensors_.parameters[layer.weights];
    void* const copy = compute_at(layout_.offsets[layer.weights]);
    weights.compute = copy != nullptr ? copy : weights.master;
  }
  float* next = As<float>(buffers_);
  for (const Buffer& buffer : model_.buffers) {
    tensors_.buffers.push_back(next);
    next += RoomOf(buffer);
  }
}

absl::Status ParameterStore::Import(const TensorSet& weights) {
  MILLRACE_RETURN_IF_ERROR(Upload(weights, masters()));
  MILLRACE_RETURN_IF_ERROR(RefreshCompute());
  return device_.Synchronize();
}

absl::Status ParameterStore::Export(TensorSet& weights) const {
  MILLRACE_ASSIGN_OR_RETURN(weights, Download(masters()));
  return absl::OkStatus();
}

absl::Status ParameterStore::Upload(const TensorSet& tensors, float* arena) {
  MILLRACE_RETURN_IF_ERROR(CheckCount("parameters", tensors.size(), model_.parameters.size()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Parameter& parameter = model_.parameters[i];
    MILLRACE_RETURN_IF_ERROR(copier_->Upload(parameter, tensors[i], WholeOf(i, parameter.shape),
                                             arena + layout_.offsets[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorSet> ParameterStore::Download(const float* arena) const {
  std::vector<const float*> memory;
  for (const size_t offset : layout_.offsets) memory.push_back(arena + offset);
  return Download(memory);
}

absl::StatusOr<TensorSet> ParameterStore::Download(std::span<const float* const> from) const {
  TensorSet tensors;
  for (size_t i = 0; i < from.size(); ++i) {
    const Parameter& parameter = model_.parameters[i];
    tensors.emplace_back(ElementsOf(parameter.shape));
    MILLRACE_RETURN_IF_ERROR(copier_->Download(parameter, from[i], tensors.back()));
  }
  return tensors;
}

absl::Status ParameterStore::ImportBuffers(const TensorSet& buffers) {
  MILLRACE_RETURN_IF_ERROR(CheckCount("buffers", buffers.size(), model_.buffers.size()));
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Parameter tensor = TensorOf(model_.buffers[i]);
    MILLRACE_RETURN_IF_ERROR(
        copier_->Upload(tensor, buffers[i], WholeOf(i, tensor.shape), tensors_.buffers[i]));
  }
  return absl::OkStatus();
}

absl::Status ParameterStore::ImportSlots(const Slots& slots) {
  MILLRACE_RETURN_IF_ERROR(CheckCount("slots", slots.size(), slots_.size()));
  for (size_t s = 0; s < slots.size(); ++s) {
    MILLRACE_RETURN_IF_ERROR(
        CheckCount("parameters", slots[s].tensors.size(), model_.parameters.size()));
    for (size_t i = 0; i < model_.parameters.size(); ++i) {
      const Piece& piece = slot_layout_.pieces[i];
      if (piece.size() == 0) continue;
      MILLRACE_RETURN_IF_ERROR(
          Annotate(copier_->Upload(model_.parameters[i], slots[s].tensors[i], piece, slot_at(s, i)),
                   slots[s].name));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Slots> ParameterStore::ExportSlots() const {
  Slots slots;
  for (size_t s = 0; s < slots_.size(); ++s) {
    std::vector<const float*> memory;
    for (size_t i = 0; i < model_.parameters.size(); ++i) memory.push_back(slot_at(s, i));
    absl::StatusOr<TensorSet> tensors = Download(memory);
    if (!tensors.ok()) return Annotate(tensors.status(), options_.slots[s]);
    slots.push_back({options_.slots[s], *std::move(tensors)});
  }
  return slots;
}

absl::StatusOr<bool> ParameterStore::AreFinite() const {
  const NonFiniteArgs args = {masters(), static_cast<int64_t>(layout_.size), As<uint32_t>(found_)};
  MILLRACE_RETURN_IF_ERROR(device_.Zero(args.found, sizeof(uint32_t)));
  MILLRACE_RETURN_IF_ERROR(device_.OnDevice(
      [&] { return device_.kernels().update->find_non_finite(device_.stream(), args); }));
  uint32_t found = 0;
  MILLRACE_RETURN_IF_ERROR(device_.Copy(&found, args.found, sizeof(found)));
  MILLRACE_RETURN_IF_ERROR(device_.Synchronize());
  return found == 0;
}

absl::Status ParameterStore::RefreshCompute() {
  if (options_.compute == DType::kF32 || layout_.size == 0) return absl::OkStatus();
  ConvertArgs args;
  args.from = masters();
  args.to = compute_at(0);
  args.to_type = options_.compute;
  args.pixels = static_cast<int64_t>(layout_.size);
  return device_.OnDevice([&] { return device_.kernels().convert(device_.stream(), args); });
}

}  // namespace millrace::trainer::cuda
