#include <algorithm>
#include <cmath>
#include <memory>

#include "trainer/backend/onednn/batch_norm.h"
#include "trainer/backend/onednn/layer_compiler.h"

namespace millrace::trainer {
namespace {

// A batch norm: what its operations read and write, and what the backward pass needs of the forward
// one.
struct BatchNormLayer {
  NormShape shape;  // `valid` is the batch's
  double epsilon = 0;
  const StepInput* step = nullptr;
  std::span<const float> weights;
  std::span<const float> bias;
  const float* x = nullptr;
  float* result = nullptr;
  std::vector<float> scale;
  std::vector<float> shift;

  // For training.
  const float* dy = nullptr;
  std::span<float> weights_gradient;
  std::span<float> bias_gradient;
  Moments moments;
  GradientSums sums;

  NormShape Batch() const {
    NormShape batch = shape;
    batch.valid = step->valid;
    return batch;
  }
  double InverseDeviation(double variance) const { return 1 / std::sqrt(variance + epsilon); }
  template <typename Values>
  void Normalize(const Values& mean, const Values& variance);
  void GradientsOfParameters();
  void GradientOfInput(float* dx) const;
};

template <typename Values>
void BatchNormLayer::Normalize(const Values& mean, const Values& variance) {
  scale.resize(shape.channels);
  shift.resize(shape.channels);
  for (int64_t c = 0; c < shape.channels; ++c) {
    const double factor = weights[c] * InverseDeviation(variance[c]);
    scale[c] = static_cast<float>(factor);
    shift[c] = static_cast<float>(bias[c] - factor * mean[c]);
  }
  ScaleAndShift(Batch(), x, scale, shift, result);
}

void BatchNormLayer::GradientsOfParameters() {
  SumGradients(Batch(), x, dy, moments.mean, sums);
  for (int64_t c = 0; c < shape.channels; ++c) {
    weights_gradient[c] = static_cast<float>(sums.dy_x[c] * InverseDeviation(moments.variance[c]));
    bias_gradient[c] = static_cast<float>(sums.dy[c]);
  }
}

// With n values of a channel, and d the inverse deviation:
//   dx = weight * d * (dy - sum(dy) / n - (x - mean) * d^2 * sum(dy * (x - mean)) / n)
// (Ioffe and Szegedy 2015, section 3).
void BatchNormLayer::GradientOfInput(float* dx) const {
  const NormShape batch = Batch();
  const double n = static_cast<double>(std::max<int64_t>(1, batch.num_values()));
  NormGradient factors;
  for (int64_t c = 0; c < shape.channels; ++c) {
    const double inverse = InverseDeviation(moments.variance[c]);
    const double a = weights[c] * inverse;
    const double b = -a * inverse * inverse * sums.dy_x[c] / n;
    factors.a.push_back(static_cast<float>(a));
    factors.b.push_back(static_cast<float>(b));
    factors.k.push_back(static_cast<float>(-a * sums.dy[c] / n - b * moments.mean[c]));
  }
  CombineGradient(batch, x, dy, factors, dx);
}

// The running variance follows the unbiased one, as PyTorch's does.
void WriteStatistics(const NormShape& batch, const Moments& moments, std::span<float> mean,
                     std::span<float> variance) {
  const auto n = static_cast<double>(batch.num_values());
  const double unbiased = n > 1 ? n / (n - 1) : 1;
  for (size_t c = 0; c < mean.size(); ++c) {
    mean[c] = static_cast<float>(moments.mean[c]);
    variance[c] = static_cast<float>(moments.variance[c] * unbiased);
  }
}

std::shared_ptr<BatchNormLayer> MakeBatchNorm(LayerCompiler& compiler) {
  const Layer& layer = compiler.layer();
  const Shape& shape = compiler.source_shape();
  auto norm = std::make_shared<BatchNormLayer>();
  norm->shape.channels = shape[shape.rank() - 1];
  norm->shape.pixels = shape.num_elements() / norm->shape.channels;
  norm->epsilon = std::get<Normalization>(layer.attributes).epsilon;
  norm->step = &compiler.step();
  norm->weights = compiler.Weights(layer.weights);
  norm->bias = compiler.Weights(layer.bias);
  norm->result = ValueMemory::Floats(compiler.output()).data();
  if (!compiler.is_training()) return norm;
  norm->dy = ValueMemory::Floats(compiler.output_gradient()).data();
  norm->weights_gradient = compiler.Gradient(layer.weights);
  norm->bias_gradient = compiler.Gradient(layer.bias);
  return norm;
}

}  // namespace

// The input may be the batch itself, whose place is known only when the layer runs.
void CompileBatchNorm(LayerCompiler& compiler) {
  const std::shared_ptr<BatchNormLayer> norm = MakeBatchNorm(compiler);
  const dnnl::memory source = compiler.source();
  const auto find = [norm, source] { norm->x = ValueMemory::Floats(source).data(); };
  const std::span<const float> mean = compiler.Buffer(compiler.layer().mean);
  const std::span<const float> variance = compiler.Buffer(compiler.layer().variance);
  if (!compiler.is_training()) {
    compiler.out.forward.AddKernel([=] {
      find();
      norm->Normalize(mean, variance);
    });
    return;
  }
  const std::span<float> mean_now = compiler.Statistics(compiler.layer().mean);
  const std::span<float> variance_now = compiler.Statistics(compiler.layer().variance);
  compiler.out.forward.AddKernel([=] {
    find();
    MeasureMoments(norm->Batch(), norm->x, norm->moments);
    WriteStatistics(norm->Batch(), norm->moments, mean_now, variance_now);
    norm->Normalize(norm->moments.mean, norm->moments.variance);
  });
  compiler.out.gradients.AddKernel([norm] { norm->GradientsOfParameters(); });
  const dnnl::memory gradient = compiler.source_gradient();
  if (!gradient) return;
  compiler.out.data.AddKernel(
      [norm, gradient] { norm->GradientOfInput(ValueMemory::Floats(gradient).data()); });
}

}  // namespace millrace::trainer
