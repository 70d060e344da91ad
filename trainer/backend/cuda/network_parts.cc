#include "trainer/backend/cuda/network_parts.h"

#include "absl/strings/str_cat.h"
#include "trainer/backend/cuda/products_of.h"

namespace millrace::trainer::cuda {
namespace {

size_t BytesOf(const Shape& shape, DType type) {
  return static_cast<size_t>(shape.num_elements()) * SizeOf(type);
}

// Weights of products are those of layers that have such.
std::vector<bool> AreWeights(const Model& model) {
  std::vector<bool> are(model.parameters.size());
  for (const Layer& layer : model.layers) {
    if (HasProducts(layer.kind) && layer.weights >= 0) are[layer.weights] = true;
  }
  return are;
}

void BorrowParameters(NetworkParts& parts, const DeviceTensors& tensors) {
  const Model& model = parts.compiled.model;
  const DType type = parts.compiled.type;
  const std::vector<bool> are_weights = AreWeights(model);
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    const Parameter& parameter = model.parameters[i];
    const DeviceTensors::Parameter& memory = tensors.parameters[i];
    const size_t bytes = BytesOf(parameter.shape, DType::kF32);
    const std::string name = absl::StrCat("parameter ", parameter.name);
    parts.masters.push_back(parts.buffers.Borrow(name, memory.master, bytes));
    parts.weights.emplace_back();
    parts.gradients.emplace_back();
    const bool has_copy = memory.compute != nullptr && memory.compute != memory.master;
    if (are_weights[i] && has_copy) {
      parts.weights.back() = {parts.buffers.Borrow(absl::StrCat("copy of ", name), memory.compute,
                                                   BytesOf(parameter.shape, type)),
                              type};
    } else if (are_weights[i]) {
      parts.weights.back() = {parts.masters.back(), DType::kF32};
    }
    if (!IsTraining(parts.compiled.use)) continue;
    parts.gradients.back() =
        parts.buffers.Borrow(absl::StrCat("gradient of ", name), memory.gradient, bytes);
  }
  for (size_t i = 0; i < model.buffers.size(); ++i) {
    parts.running.push_back(parts.buffers.Borrow(absl::StrCat("buffer ", model.buffers[i].name),
                                                 tensors.buffers[i],
                                                 BytesOf(model.buffers[i].shape, DType::kF32)));
  }
}

void AddBatch(NetworkParts& parts) {
  const auto rows = static_cast<size_t>(parts.compiled.rows);
  const size_t ids = rows * sizeof(SampleId);
  BatchParts& batch = parts.batch;
  batch.whole = parts.buffers.AddKept("step", sizeof(StepValues) + ids + rows);
  batch.step = batch.whole.Cut(0, sizeof(StepValues));
  batch.ids = batch.whole.Cut(sizeof(StepValues), ids);
  batch.valid = batch.whole.Cut(sizeof(StepValues) + ids, rows);
}

void AddResults(NetworkParts& parts) {
  const Model& model = parts.compiled.model;
  const bool has_losses = parts.compiled.use != NetworkUse::kPrediction;
  const size_t losses = has_losses ? model.losses.size() : 0;
  size_t bytes = losses * sizeof(LossSums);
  std::vector<size_t> begins;
  for (const Buffer& buffer : model.buffers) {
    begins.push_back(bytes);
    if (IsTraining(parts.compiled.use)) bytes += BytesOf(buffer.shape, DType::kF32);
  }
  ResultParts& results = parts.results;
  results.whole = parts.buffers.AddKept("results", bytes);
  for (size_t i = 0; i < losses; ++i) {
    results.losses.push_back(results.whole.Cut(i * sizeof(LossSums), sizeof(LossSums)));
  }
  for (size_t i = 0; IsTraining(parts.compiled.use) && i < begins.size(); ++i) {
    results.statistics.push_back(
        results.whole.Cut(begins[i], BytesOf(model.buffers[i].shape, DType::kF32)));
  }
}

}  // namespace

NetworkParts::NetworkParts(Device& device_in, SharedProducts& products_in,
                           const Compiled& compiled_in, const DeviceTensors& tensors,
                           const BackendOptions& options_in)
    : device(device_in),
      products(products_in),
      compiled(compiled_in),
      options(options_in),
      values(compiled, buffers),
      is_written(compiled.model.values.size()) {
  BorrowParameters(*this, tensors);
  AddBatch(*this);
  AddResults(*this);
  const size_t scratch_bytes =
      device.kernels().scratch_bytes(values.most_pixels(), values.most_channels());
  scratch = buffers.AddKept("scratch", scratch_bytes);
  workspace = buffers.AddKept("workspace", 0);
}

BatchRows NetworkParts::Rows(Access& memory, bool reads_valid, bool reads_step) const {
  BatchRows rows;
  rows.rows = compiled.rows;
  if (reads_valid) rows.valid = memory.Read<uint8_t>(batch.valid);
  if (reads_step) rows.step = memory.Read<StepValues>(batch.step);
  return rows;
}

const float* NetworkParts::Factor(Access& memory) const {
  constexpr size_t kBegin = offsetof(StepValues, inverse_loss_scale);
  return memory.Read<float>(batch.step.Cut(kBegin, sizeof(float)));
}

}  // namespace millrace::trainer::cuda
