#include "trainer/backend/onednn/network.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/status.h"
#include "trainer/backend/input_values.h"
#include "trainer/backend/loss.h"
#include "trainer/backend/onednn/flush_denormals.h"
#include "trainer/backend/onednn/guarded.h"
#include "trainer/backend/onednn/half_copies.h"
#include "trainer/compute/threads.h"

namespace millrace::trainer {
namespace {

// Sets the memory of an input, of float or bfloat16.
void SetValues(const ModelInput& input, const ConstTensorView& field, const dnnl::memory& to) {
  if (to.get_desc().data_type() == kF32) return ReadInput(input, field, ValueMemory::Floats(to));
  std::vector<float> values(static_cast<size_t>(field.shape.num_elements()));
  ReadInput(input, field, values);
  CopyFloats(values, to);
}

// True if the gradient of a layer's input is made of those of its parameters.
bool UsesOwnGradients(LayerKind kind) { return kind == LayerKind::kBatchNorm; }

}  // namespace

OneDnnNetwork::OneDnnNetwork(const NetworkTensors& tensors, int64_t rows, NetworkUse use,
                             const BackendOptions& options, const dnnl::engine& engine)
    : model_(tensors.model),
      use_(use),
      threads_(options.threads),
      stream_(engine),
      values_(model_, rows, use, options, engine),
      statistics_(MakeInitialBuffers(model_)),
      gradients_(tensors.gradients),
      layers_(model_.layers.size()) {
  omp_set_num_threads(threads_);
  values_.Allocate();
  NetworkParts parts{tensors, engine, values_, statistics_, step_, options};
  for (size_t i = 0; i < layers_.size(); ++i) {
    LayerCompiler compiler(parts, i, layers_[i]);
    CompileLayer(compiler);
  }
}

absl::Status OneDnnNetwork::Forward(const StepInput& input) {
  return Guarded([&] { return DoForward(input); });
}

absl::Status OneDnnNetwork::Backward(const GradientReady& ready) {
  return Guarded([&] { return DoBackward(ready); });
}

absl::Status OneDnnNetwork::DoForward(const StepInput& input) {
  MILLRACE_RETURN_IF_ERROR(CheckStepInput(model_, input, use_));
  omp_set_num_threads(threads_);
  FlushDenormals::OnThreads(threads_);
  const FlushDenormals flush;
  step_ = input;
  for (size_t i = 0; i < input.inputs.size(); ++i) SetInput(i);
  for (const CompiledLayer& layer : layers_) {
    MILLRACE_RETURN_IF_ERROR(layer.measure.Run(stream_));
    MILLRACE_RETURN_IF_ERROR(layer.forward.Run(stream_));
  }
  stream_.wait();
  ReadOutputs();
  result_ = ComputeLosses(input);
  return absl::OkStatus();
}

absl::Status OneDnnNetwork::SetOutputGradient(size_t i, std::span<const float> values) {
  output_gradients_[i].assign(values.begin(), values.end());
  return absl::OkStatus();
}

void OneDnnNetwork::SetInput(size_t i) const {
  const ModelInput& field = model_.inputs[i];
  const ConstTensorView& tensor = step_.inputs[i];
  if (field.dtype == DType::kF32) {
    values_.SetInput(i, tensor.as<float>());
  } else {
    SetValues(field, tensor, values_.data(field.value));
  }
}

void OneDnnNetwork::ReadOutputs() {
  outputs_.clear();
  for (const Loss& loss : model_.losses) outputs_.push_back(FloatsOf(values_.data(loss.input)));
  if (!IsTraining(use_)) return;
  output_gradients_.resize(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) output_gradients_[i].resize(outputs_[i].size());
}

StepResult OneDnnNetwork::ComputeLosses(const StepInput& input) {
  if (use_ == NetworkUse::kPrediction) return {};
  StepResult result = ComputeLoss(0, input);
  for (size_t i = 1; i < model_.losses.size(); ++i) {
    result.loss_sum += ComputeLoss(i, input).loss_sum;
  }
  return result;
}

StepResult OneDnnNetwork::ComputeLoss(size_t i, const StepInput& input) {
  std::span<float> gradient;
  if (IsTraining(use_)) gradient = output_gradients_[i];
  return millrace::trainer::ComputeLoss(model_.losses[i], outputs_[i], input.targets[i], input,
                                        gradient);
}

// The gradient of a value that several losses read is their sum.
void OneDnnNetwork::BeginBackward() {
  for (size_t i = 0; i < model_.losses.size(); ++i) {
    const auto reads_it = [&](const Loss& loss) { return loss.input == model_.losses[i].input; };
    const auto losses = std::span(model_.losses);
    if (std::ranges::any_of(losses.first(i), reads_it)) continue;
    std::vector<float> sum = output_gradients_[i];
    for (size_t j = i + 1; j < losses.size(); ++j) {
      if (!reads_it(losses[j])) continue;
      std::ranges::transform(sum, output_gradients_[j], sum.begin(), std::plus<>());
    }
    CopyFloats(sum, values_.gradient(model_.losses[i].input));
  }
}

void OneDnnNetwork::EndBackward() {
  if (use_ != NetworkUse::kInputGradients) return;
  input_gradients_.clear();
  for (const ModelInput& input : model_.inputs) {
    input_gradients_.push_back(FloatsOf(values_.gradient(input.value)));
  }
}

std::string OneDnnNetwork::FirstNonFinite() {
  return Guarded([&] { return FindNonFinite(); }).value_or("");
}

// Values share memory, so the layers run again: all of them, because a Backward may follow. They
// keep what they have measured, for the other ranks do not measure again.
absl::StatusOr<std::string> OneDnnNetwork::FindNonFinite() const {
  dnnl::stream stream = stream_;
  std::string first;
  const auto look_at = [&](int value) {
    const bool is_finite = std::ranges::all_of(FloatsOf(values_.data(value)),
                                               [](float v) { return std::isfinite(v); });
    if (first.empty() && !is_finite) first = model_.values[value].name;
  };
  for (size_t i = 0; i < step_.inputs.size(); ++i) SetInput(i);
  for (const ModelInput& input : model_.inputs) look_at(input.value);
  for (size_t i = 0; i < layers_.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(layers_[i].forward.Run(stream));
    stream.wait();
    look_at(model_.layers[i].output);
  }
  return first;
}

std::vector<std::string> OneDnnNetwork::LayersWithReferenceCode() const {
  std::vector<std::string> names;
  const auto is_reference = [](const std::string& code) { return code.starts_with("ref"); };
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (const OperationList* list :
         {&layers_[i].forward, &layers_[i].gradients, &layers_[i].data}) {
      if (std::ranges::any_of(list->codes(), is_reference)) names.push_back(model_.layers[i].name);
    }
  }
  return names;
}

// What `ready` does keeps its denormal numbers.
absl::Status OneDnnNetwork::RunAlone(const OperationList& operations) {
  const FlushDenormals flush;
  absl::Status status = operations.Run(stream_);
  stream_.wait();
  return status;
}

absl::Status OneDnnNetwork::DoBackward(const GradientReady& ready) {
  BeginBackward();
  const std::vector<Segment>& segments = values_.segments();
  for (size_t k = segments.size(); k-- > 0;) {
    for (const size_t i : segments[k].again) MILLRACE_RETURN_IF_ERROR(RunAlone(layers_[i].forward));
    for (size_t i = segments[k].end; i-- > segments[k].begin;) {
      MILLRACE_RETURN_IF_ERROR(RunLayerBackward(i, ready));
    }
  }
  EndBackward();
  return absl::OkStatus();
}

absl::Status OneDnnNetwork::RunLayerBackward(size_t i, const GradientReady& ready) {
  const Layer& layer = model_.layers[i];
  if (ready || UsesOwnGradients(layer.kind)) {
    MILLRACE_RETURN_IF_ERROR(RunAlone(layers_[i].gradients));
  }
  MILLRACE_RETURN_IF_ERROR(Report(layer.bias, ready));
  MILLRACE_RETURN_IF_ERROR(Report(layer.weights, ready));
  return RunAlone(layers_[i].data);
}

absl::Status OneDnnNetwork::Report(int parameter, const GradientReady& ready) {
  if (!ready || parameter < 0) return absl::OkStatus();
  if (step_.loss_scale != 1) Unscale(step_.loss_scale, gradients_[parameter]);
  return ready(static_cast<size_t>(parameter));
}

}  // namespace millrace::trainer
