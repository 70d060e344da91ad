// Batch norms, with the addition, the ReLU and the max pool behind them.

#include <optional>

#include "trainer/backend/cuda/layer_compiler.h"
#include "trainer/backend/cuda/pool_sizes.h"

namespace millrace::trainer::cuda {
namespace {

// The tensors of a max pool that a batch norm does.
struct FusedPool {
  explicit FusedPool(LayerCompiler& pool);

  PoolArgs sizes;
  Tensor output;
  Tensor gradient;
  Part places;  // none: nothing reads them
  int value = -1;
};

FusedPool::FusedPool(LayerCompiler& pool)
    : sizes(PoolSizes(pool.model(), pool.layer(), pool.rows())),
      output(pool.output()),
      gradient(pool.output_gradient()),
      value(pool.layer().output) {
  // Added forward, and found again backward.
  Part& saved = pool.parts().saved[pool.index()];
  if (pool.is_training() && gradient && !saved) {
    saved = pool.NewTensor("places", pool.values().count(value), DType::kU8);
  }
  places = saved;
}

// The tensors of a batch norm.
struct Norm {
  explicit Norm(LayerCompiler& compiler);

  // The fields that all of its kernels read.
  NormArgs Common() const;

  NetworkParts* parts = nullptr;
  Tensor x;
  Tensor y;
  Tensor addend;                  // none: none is added
  std::optional<FusedPool> pool;  // y has no memory then
  bool has_relu = false;
  int result = -1;  // the value behind the layers that it does
  Part weights;
  Part bias;
  Part moments;
  Part sums;
  int64_t row_pixels = 1;
  int64_t channels = 1;
  double epsilon = 0;
};

Norm::Norm(LayerCompiler& compiler) : parts(&compiler.parts()), x(compiler.source()) {
  const Layer& layer = compiler.layer();
  const FusedNorm& fused = compiler.fused_norm();
  const int last = fused.relu >= 0 ? fused.relu : fused.add;
  result = last >= 0 ? compiler.model().layers[last].output : layer.output;
  y = compiler.values().data(result);
  if (fused.add >= 0) addend = compiler.values().data(fused.addend);
  has_relu = fused.relu >= 0;
  weights = parts->masters[layer.weights];
  bias = parts->masters[layer.bias];
  channels = compiler.values().channels(layer.output);
  row_pixels = compiler.values().pixels(layer.output) / compiler.rows();
  epsilon = std::get<Normalization>(layer.attributes).epsilon;
  const int of_pool = compiler.values().PoolOfNorm(compiler.index());
  if (of_pool < 0) return;
  LayerCompiler pool_compiler(*parts, static_cast<size_t>(of_pool));
  pool.emplace(pool_compiler);
}

NormArgs Norm::Common() const {
  NormArgs args;
  args.type = x.type;
  args.batch.rows = parts->compiled.rows;
  args.row_pixels = row_pixels;
  args.channels = channels;
  args.epsilon = epsilon;
  args.has_relu = has_relu;
  return args;
}

// The arguments of a kernel that does the pool too, without the pool's memory.
NormPoolArgs WithPool(const Norm& norm, const NormArgs& args) {
  NormPoolArgs both{args, norm.pool->sizes};
  both.pool.type = args.type;
  return both;
}

// Adds a kernel of the backward pass, of the norm alone or with its pool.
template <typename Make>
void AddBackwardKernel(LayerCompiler& compiler, const Norm& norm, const std::string& what,
                       Kernel<NormArgs> Kernels::*alone, Kernel<NormPoolArgs> Kernels::*with_pool,
                       Make make) {
  const Draft draft = compiler.Named(what);
  if (!norm.pool) return compiler.program().AddKernel(draft, alone, std::move(make));
  compiler.program().AddKernel(draft, with_pool, [=](Access& memory) {
    NormPoolArgs args = WithPool(norm, make(memory));
    args.pool.from = memory.Read(norm.pool->gradient);
    args.pool.places = const_cast<uint8_t*>(memory.Read<uint8_t>(norm.pool->places));
    return args;
  });
}

bool SumsOverRanks(LayerCompiler& compiler) {
  return compiler.layer().is_synchronized() && compiler.parts().options.sum_over_ranks;
}

// Mean, inverse deviation, the mean's rounding, and one more for the backward pass.
constexpr size_t kMoments = 4;

Part NewMoments(LayerCompiler& compiler, const Norm& norm) {
  Part& moments = compiler.parts().saved[compiler.index()];
  moments = compiler.buffers().AddKept("moments of " + compiler.layer().name,
                                       kMoments * norm.channels * sizeof(float));
  return moments;
}

Part NewSums(LayerCompiler& compiler, const Norm& norm) {
  return compiler.buffers().AddKept("sums of " + compiler.layer().name,
                                    (1 + 2 * norm.channels) * sizeof(double));
}

// What the moments of a batch go to.
void WriteMoments(const Norm& norm, const Layer& layer, Access& memory, NormArgs& args) {
  args.moments = memory.Write<float>(norm.moments);
  args.mean = memory.Write<float>(norm.parts->results.statistics[layer.mean]);
  args.variance = memory.Write<float>(norm.parts->results.statistics[layer.variance]);
}

void AddMeasure(LayerCompiler& compiler, const Norm& norm) {
  const Layer& layer = compiler.layer();
  const bool sums_over_ranks = SumsOverRanks(compiler);
  Draft draft = compiler.Named("measure");
  draft.measures = true;
  compiler.program().AddKernel(draft, &Kernels::norm_measure, [=, &layer](Access& memory) {
    NormArgs args = norm.Common();
    args.batch = norm.parts->Rows(memory, /*reads_valid=*/true, /*reads_step=*/false);
    args.x = memory.Read(norm.x);
    args.sums = memory.Write<double>(norm.sums);
    args.scratch = memory.Write(norm.parts->scratch);
    if (!sums_over_ranks) WriteMoments(norm, layer, memory, args);
    return args;
  });
  if (!sums_over_ranks) return;
  compiler.program().CutForSum(norm.sums, norm.channels, true);
  draft.name = compiler.Named("moments").name;
  compiler.program().AddKernel(draft, &Kernels::norm_moments, [=, &layer](Access& memory) {
    NormArgs args = norm.Common();
    args.sums = const_cast<double*>(memory.Read<double>(norm.sums));
    WriteMoments(norm, layer, memory, args);
    return args;
  });
}

void AddMomentsOfRunning(LayerCompiler& compiler, const Norm& norm) {
  const Part mean = norm.parts->running[compiler.layer().mean];
  const Part variance = norm.parts->running[compiler.layer().variance];
  compiler.program().AddKernel(compiler.Named("moments"), &Kernels::norm_moments_of_running,
                               [=](Access& memory) {
                                 NormArgs args = norm.Common();
                                 args.mean = const_cast<float*>(memory.Read<float>(mean));
                                 args.variance = const_cast<float*>(memory.Read<float>(variance));
                                 args.moments = memory.Write<float>(norm.moments);
                                 return args;
                               });
}

// What both kernels of the backward pass read.
NormArgs ReadForBackward(const Norm& norm, const Tensor& dy, Access& memory) {
  NormArgs args = norm.Common();
  args.batch = norm.parts->Rows(memory, /*reads_valid=*/true, /*reads_step=*/false);
  args.x = memory.Read(norm.x);
  args.weights = memory.Read<float>(norm.weights);
  args.bias = memory.Read<float>(norm.bias);
  args.moments = const_cast<float*>(memory.Read<float>(norm.moments));
  // Without an addend the mask is computed again.
  if (norm.has_relu && norm.addend) args.y = const_cast<void*>(memory.Read(norm.y));
  if (!norm.pool) args.dy = memory.Read(dy);
  return args;
}

void AddBackwardSums(LayerCompiler& compiler, const Norm& norm, const Target& addend_gradient) {
  const Tensor dy = compiler.values().gradient(norm.result);
  const Part weights_gradient = norm.parts->gradients[compiler.layer().weights];
  const Part bias_gradient = norm.parts->gradients[compiler.layer().bias];
  const auto make = [=](Access& memory) {
    NormArgs args = ReadForBackward(norm, dy, memory);
    if (addend_gradient) args.dz = addend_gradient.Open(memory);
    args.accumulates_dz = addend_gradient.accumulates;
    args.sums = memory.Write<double>(norm.sums);
    args.weights_gradient = memory.Write<float>(weights_gradient);
    args.bias_gradient = memory.Write<float>(bias_gradient);
    args.factor = norm.parts->Factor(memory);
    args.scratch = memory.Write(norm.parts->scratch);
    return args;
  };
  AddBackwardKernel(compiler, norm, "gradients", &Kernels::norm_backward_sums,
                    &Kernels::norm_pool_backward_sums, make);
}

// The gradient of the addend, if it was kept by itself, is dy behind the ReLU.
void AddCombine(LayerCompiler& compiler, Norm norm, const Target& addend_gradient,
                const Target& target) {
  Tensor dy = compiler.values().gradient(norm.result);
  if (addend_gradient && !addend_gradient.accumulates) {
    dy = compiler.values().gradient(compiler.fused_norm().addend);
    norm.has_relu = false;
  }
  const auto make = [=](Access& memory) {
    NormArgs args = ReadForBackward(norm, dy, memory);
    args.sums = const_cast<double*>(memory.Read<double>(norm.sums));
    args.dx = target.Open(memory);
    args.accumulates_dx = target.accumulates;
    return args;
  };
  AddBackwardKernel(compiler, norm, "gradient of input", &Kernels::norm_backward_combine,
                    &Kernels::norm_pool_backward_combine, make);
}

void AddApply(LayerCompiler& compiler, const Norm& norm) {
  const auto make = [norm](Access& memory) {
    NormArgs args = norm.Common();
    args.x = memory.Read(norm.x);
    args.addend = memory.Read(norm.addend);
    args.weights = memory.Read<float>(norm.weights);
    args.bias = memory.Read<float>(norm.bias);
    args.moments = const_cast<float*>(memory.Read<float>(norm.moments));
    if (!norm.pool) args.y = memory.Write(norm.y);
    return args;
  };
  const int value = norm.pool ? norm.pool->value : compiler.layer().output;
  const Draft draft = compiler.Completing(value, "forward");
  if (!norm.pool) return compiler.program().AddKernel(draft, &Kernels::norm_apply, make);
  compiler.program().AddKernel(draft, &Kernels::norm_pool, [=](Access& memory) {
    NormPoolArgs args = WithPool(norm, make(memory));
    args.pool.to = memory.Write(norm.pool->output);
    args.pool.places = memory.Write<uint8_t>(norm.pool->places);
    return args;
  });
}

}  // namespace

absl::Status NormForward(LayerCompiler& compiler) {
  Norm norm(compiler);
  norm.moments = NewMoments(compiler, norm);
  if (compiler.is_training()) {
    norm.sums = NewSums(compiler, norm);
    AddMeasure(compiler, norm);
  } else {
    AddMomentsOfRunning(compiler, norm);
  }
  AddApply(compiler, norm);
  return absl::OkStatus();
}

// The sums over ranks are needed for the gradient of the input alone.
absl::Status NormBackward(LayerCompiler& compiler) {
  Norm norm(compiler);
  norm.moments = compiler.parts().saved[compiler.index()];
  norm.sums = NewSums(compiler, norm);
  Target addend_gradient;
  if (norm.addend) addend_gradient = compiler.GradientOf(compiler.fused_norm().addend);
  AddBackwardSums(compiler, norm, addend_gradient);
  compiler.program().Cut({compiler.layer().bias, compiler.layer().weights});
  const Target target = compiler.GradientOf(compiler.source_value());
  if (!target) return absl::OkStatus();
  if (SumsOverRanks(compiler)) compiler.program().CutForSum(norm.sums, norm.channels, false);
  AddCombine(compiler, norm, addend_gradient, target);
  return absl::OkStatus();
}

}  // namespace millrace::trainer::cuda
