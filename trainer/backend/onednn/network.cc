#include "trainer/backend/onednn/network.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/status.h"
#include "trainer/backend/loss.h"
#include "trainer/backend/onednn/guarded.h"

// oneDNN's threads are libgomp's; its header belongs to the compiler, so the one function is
// declared here. The setting counts for the calling thread.
extern "C" void omp_set_num_threads(int threads);

namespace millrace::trainer {
namespace {

// (value - mean) / stddev as value * scale + shift, by channel.
void Normalize(const ModelInput& field, std::span<const uint8_t> from, std::span<float> to) {
  const size_t channels = field.mean.size();
  std::vector<float> scale;
  std::vector<float> shift;
  for (size_t c = 0; c < channels; ++c) {
    scale.push_back(static_cast<float>(1 / field.stddev[c]));
    shift.push_back(static_cast<float>(-field.mean[c] / field.stddev[c]));
  }
  for (size_t begin = 0; begin < from.size(); begin += channels) {
    for (size_t c = 0; c < channels; ++c) {
      to[begin + c] = scale[c] * static_cast<float>(from[begin + c]) + shift[c];
    }
  }
}

// True if the gradient of a layer's input is made of those of its parameters.
bool UsesOwnGradients(LayerKind kind) { return kind == LayerKind::kBatchNorm; }

}  // namespace

OneDnnNetwork::OneDnnNetwork(const NetworkTensors& tensors, int64_t rows, NetworkUse use,
                             int threads, const dnnl::engine& engine)
    : model_(tensors.model),
      use_(use),
      threads_(threads),
      stream_(engine),
      values_(model_, rows, use, engine),
      statistics_(MakeInitialBuffers(model_)),
      layers_(model_.layers.size()) {
  omp_set_num_threads(threads_);
  NetworkParts parts{tensors, engine, values_, statistics_, step_};
  for (size_t i = 0; i < layers_.size(); ++i) {
    LayerCompiler compiler(parts, i, layers_[i]);
    CompileLayer(compiler);
  }
}

absl::StatusOr<StepResult> OneDnnNetwork::Forward(const StepInput& input) {
  return Guarded([&] { return DoForward(input); });
}

absl::Status OneDnnNetwork::Backward(const GradientReady& ready) {
  return Guarded([&] { return DoBackward(ready); });
}

absl::StatusOr<StepResult> OneDnnNetwork::DoForward(const StepInput& input) {
  MILLRACE_RETURN_IF_ERROR(CheckStepInput(model_, input));
  omp_set_num_threads(threads_);
  step_ = input;
  for (size_t i = 0; i < input.inputs.size(); ++i) {
    const ModelInput& field = model_.inputs[i];
    const ConstTensorView& tensor = input.inputs[i];
    if (field.dtype == DType::kF32) {
      values_.SetInput(i, tensor.data);
    } else {
      Normalize(field, tensor.as<uint8_t>(), ValueMemory::Floats(values_.data(field.value)));
    }
  }
  for (const CompiledLayer& layer : layers_) layer.forward.Run(stream_);
  stream_.wait();
  return ComputeLosses(input);
}

StepResult OneDnnNetwork::ComputeLosses(const StepInput& input) {
  StepResult result = ComputeLoss(0, input);
  for (size_t i = 1; i < model_.losses.size(); ++i) {
    result.loss_sum += ComputeLoss(i, input).loss_sum;
  }
  return result;
}

// The first loss that reads a value writes the value's gradient, others add to it.
StepResult OneDnnNetwork::ComputeLoss(size_t i, const StepInput& input) {
  const Loss& loss = model_.losses[i];
  const std::span<const float> output = ValueMemory::Floats(values_.data(loss.input));
  const auto compute = [&](std::span<float> gradient) {
    return millrace::trainer::ComputeLoss(loss, output, input.targets[i], input, gradient);
  };
  if (!IsTraining(use_)) return compute({});
  const std::span<float> gradient = ValueMemory::Floats(values_.gradient(loss.input));
  const auto before = std::span(model_.losses).first(i);
  if (std::ranges::none_of(before, [&](const Loss& b) { return b.input == loss.input; })) {
    return compute(gradient);
  }
  std::vector<float> term(gradient.size());
  const StepResult result = compute(term);
  std::ranges::transform(gradient, term, gradient.begin(), std::plus<>());
  return result;
}

std::span<const float> OneDnnNetwork::output(size_t i) const {
  return ValueMemory::Floats(values_.data(model_.losses[i].input));
}

std::span<float> OneDnnNetwork::output_gradient(size_t i) {
  return ValueMemory::Floats(values_.gradient(model_.losses[i].input));
}

std::span<const float> OneDnnNetwork::input_gradient(size_t i) const {
  return ValueMemory::Floats(values_.gradient(model_.inputs[i].value));
}

std::string OneDnnNetwork::FirstNonFinite() const {
  for (size_t i = 0; i < model_.values.size(); ++i) {
    const std::span<const float> values = ValueMemory::Floats(values_.data(static_cast<int>(i)));
    if (!std::ranges::all_of(values, [](float v) { return std::isfinite(v); })) {
      return model_.values[i].name;
    }
  }
  return "";
}

absl::Status OneDnnNetwork::DoBackward(const GradientReady& ready) {
  for (size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = model_.layers[i];
    if (ready || UsesOwnGradients(layer.kind)) layers_[i].gradients.Run(stream_);
    stream_.wait();
    if (ready && layer.bias >= 0) MILLRACE_RETURN_IF_ERROR(ready(layer.bias));
    if (ready && layer.weights >= 0) MILLRACE_RETURN_IF_ERROR(ready(layer.weights));
    layers_[i].data.Run(stream_);
  }
  stream_.wait();
  return absl::OkStatus();
}

}  // namespace millrace::trainer
