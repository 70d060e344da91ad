#include <algorithm>
#include <cmath>
#include <memory>

#include "base/status.h"
#include "trainer/backend/onednn/batch_norm.h"
#include "trainer/backend/onednn/layer_compiler.h"
#include "trainer/backend/onednn/sum_over_ranks.h"
#include "trainer/compute/keep_denormals.h"

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
  NormPasses norm;
  NormWork work;  // of the forward pass; x is known only when the layer runs
  std::vector<float> scale;
  std::vector<float> shift;

  // For training.
  NormWork back;
  std::span<float> weights_gradient;
  std::span<float> bias_gradient;
  SumOverRanksFunction sum_over_ranks;  // empty: the batch is that of this rank
  Moments moments;                      // of the batch
  GradientSums sums;                    // of this rank, then of the batch

  NormShape Batch() const {
    NormShape batch = shape;
    batch.valid = step->valid;
    return batch;
  }
  double InverseDeviation(double variance) const { return 1 / std::sqrt(variance + epsilon); }
  template <typename Values>
  void Normalize(const Values& mean, const Values& variance);
  // Writes the statistics that the buffers follow.
  absl::Status Measure(std::span<float> mean, std::span<float> variance);
  void GradientsOfParameters();
  absl::Status SumGradients();
  void GradientOfInput(void* dx) const;
};

// The running variance follows the unbiased one, as PyTorch's does.
void WriteStatistics(const Moments& moments, std::span<float> mean, std::span<float> variance) {
  const double n = moments.count;
  const double unbiased = n > 1 ? n / (n - 1) : 1;
  for (size_t c = 0; c < mean.size(); ++c) {
    mean[c] = static_cast<float>(moments.mean[c]);
    variance[c] = static_cast<float>(moments.variance[c] * unbiased);
  }
}

template <typename Values>
void BatchNormLayer::Normalize(const Values& mean, const Values& variance) {
  scale.resize(shape.channels);
  shift.resize(shape.channels);
  for (int64_t c = 0; c < shape.channels; ++c) {
    const double factor = weights[c] * InverseDeviation(variance[c]);
    scale[c] = static_cast<float>(factor);
    shift[c] = static_cast<float>(bias[c] - factor * mean[c]);
  }
  work.scale = scale.data();
  work.shift = shift.data();
  NormPasses::Apply(Batch(), work);
}

// What others do on this thread meanwhile keeps its denormal numbers.
absl::Status BatchNormLayer::Measure(std::span<float> mean, std::span<float> variance) {
  norm.MeasureMoments(Batch(), work, moments);
  if (sum_over_ranks) {
    const KeepDenormals keep;
    MILLRACE_RETURN_IF_ERROR(SumMoments(sum_over_ranks, step->step, moments));
  }
  WriteStatistics(moments, mean, variance);
  return absl::OkStatus();
}

absl::Status BatchNormLayer::SumGradients() {
  if (!sum_over_ranks) return absl::OkStatus();
  const KeepDenormals keep;
  return SumGradientSums(sum_over_ranks, step->step, sums);
}

void BatchNormLayer::GradientsOfParameters() {
  back.x = work.x;
  back.scale = scale.data();
  back.shift = shift.data();
  norm.SumGradients(Batch(), back, moments.mean, sums);
  for (int64_t c = 0; c < shape.channels; ++c) {
    weights_gradient[c] = static_cast<float>(sums.dz_x[c] * InverseDeviation(moments.variance[c]));
    bias_gradient[c] = static_cast<float>(sums.dz[c]);
  }
}

// With n values of a channel, and d the inverse deviation:
//   dx = weight * d * (dz - sum(dz) / n - (x - mean) * d^2 * sum(dz * (x - mean)) / n)
// (Ioffe and Szegedy 2015, section 3).
void BatchNormLayer::GradientOfInput(void* dx) const {
  const double n = std::max(1.0, moments.count);
  std::vector<float> factors(3 * shape.channels);
  float* const a = factors.data();
  float* const b = a + shape.channels;
  float* const k = b + shape.channels;
  for (int64_t c = 0; c < shape.channels; ++c) {
    const double inverse = InverseDeviation(moments.variance[c]);
    const double of_dz = weights[c] * inverse;
    const double of_x = -of_dz * inverse * inverse * sums.dz_x[c] / n;
    a[c] = static_cast<float>(of_dz);
    b[c] = static_cast<float>(of_x);
    k[c] = static_cast<float>(-of_dz * sums.dz[c] / n - of_x * moments.mean[c]);
  }
  NormWork combine = back;
  if (back.dz != nullptr) {
    combine.dy = back.dz;
    combine.mask = Mask::kNone;
  }
  combine.a = a;
  combine.b = b;
  combine.k = k;
  combine.dx = dx;
  NormPasses::Combine(Batch(), combine);
}

void* HandleOf(const dnnl::memory& memory) { return memory ? memory.get_data_handle() : nullptr; }

// The gradient behind the mask is kept where something else reads it: where it has two terms, or is
// the gradient of an addend too.
void SetBackward(LayerCompiler& compiler, BatchNormLayer& norm) {
  const Layer& layer = compiler.layer();
  norm.back = norm.work;
  norm.back.dy = HandleOf(compiler.output_gradient());
  norm.back.more_dy = HandleOf(compiler.more_gradient());
  const bool has_masked_sum = compiler.fused().add >= 0 && norm.work.mask != Mask::kNone;
  if (has_masked_sum) norm.back.mask = Mask::kResult;
  if (has_masked_sum || norm.back.more_dy != nullptr) {
    norm.back.dz = HandleOf(compiler.output_gradient());
  }
  norm.weights_gradient = compiler.Gradient(layer.weights);
  norm.bias_gradient = compiler.Gradient(layer.bias);
}

std::shared_ptr<BatchNormLayer> MakeBatchNorm(LayerCompiler& compiler) {
  const Layer& layer = compiler.layer();
  const Shape& shape = compiler.source_shape();
  auto norm = std::make_shared<BatchNormLayer>();
  norm->shape.channels = shape[shape.rank() - 1];
  norm->shape.pixels = shape.num_elements() / norm->shape.channels;
  norm->shape.is_half = compiler.type() == kHalf;
  norm->shape.threads = compiler.threads();
  norm->epsilon = std::get<Normalization>(layer.attributes).epsilon;
  if (layer.is_synchronized()) norm->sum_over_ranks = compiler.sum_over_ranks();
  norm->step = &compiler.step();
  norm->weights = compiler.Weights(layer.weights);
  norm->bias = compiler.Weights(layer.bias);
  norm->work.result = HandleOf(compiler.output());
  norm->work.mask = compiler.fused().relu >= 0 ? Mask::kInput : Mask::kNone;
  if (compiler.is_training()) SetBackward(compiler, *norm);
  return norm;
}

void AddBackward(LayerCompiler& compiler, const std::shared_ptr<BatchNormLayer>& norm) {
  compiler.out.gradients.AddKernel([norm] { norm->GradientsOfParameters(); });
  const dnnl::memory gradient = compiler.source_gradient();
  if (gradient) {
    compiler.out.data.AddExchange([norm] { return norm->SumGradients(); });
    compiler.out.data.AddKernel(
        [norm, gradient] { norm->GradientOfInput(gradient.get_data_handle()); });
  }
  const dnnl::memory addend = compiler.addend_gradient();
  if (!addend) return;
  const dnnl::memory& made = compiler.output_gradient();
  compiler.out.data.Add(dnnl::reorder(made, addend),
                        {{DNNL_ARG_FROM, made}, {DNNL_ARG_TO, addend}});
}

}  // namespace

// The input and the addend may be the batch itself, whose place is known only when the layer runs.
void CompileBatchNorm(LayerCompiler& compiler) {
  const std::shared_ptr<BatchNormLayer> norm = MakeBatchNorm(compiler);
  const dnnl::memory source = compiler.source();
  const dnnl::memory addend = compiler.addend();
  const auto find = [norm, source, addend] {
    norm->work.x = source.get_data_handle();
    norm->work.addend = HandleOf(addend);
  };
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
  compiler.out.measure.AddExchange([=] {
    find();
    return norm->Measure(mean_now, variance_now);
  });
  compiler.out.forward.AddKernel([=] {
    find();
    norm->Normalize(norm->moments.mean, norm->moments.variance);
  });
  AddBackward(compiler, norm);
}

}  // namespace millrace::trainer
