#include "trainer/backend/cuda/product_weights.h"

#include <utility>

namespace millrace::trainer::cuda {
namespace {

// Channels of a filter, in the model and in the product, where the product's are padded.
struct Padding {
  int64_t pixels = 0;  // of all filters
  int64_t channels = 0;
  int64_t padded = 0;

  bool is_none() const { return channels == padded; }
};

Padding PaddingOf(LayerCompiler& compiler, const ProductSpec& spec) {
  Padding padding;
  const Shape& shape = compiler.model().parameters[compiler.layer().weights].shape;
  padding.pixels = spec.filters * spec.window.kernel[0] * spec.window.kernel[1];
  padding.padded = spec.channels / spec.window.groups;
  padding.channels = shape.num_elements() / padding.pixels;
  return padding;
}

bool IsFolded(LayerCompiler& compiler) { return compiler.values().ReadsFolded(compiler.index()); }

// True if the product has the weights as the model has them.
bool IsAsInModel(LayerCompiler& compiler, const ProductSpec& spec) {
  return !IsFolded(compiler) && PaddingOf(compiler, spec).is_none();
}

int64_t CountOf(const ProductSpec& spec) {
  return spec.filters * spec.window.kernel[0] * spec.window.kernel[1] *
         (spec.channels / spec.window.groups);
}

// Weights to folded ones, or, with a factor, the gradient of these to that of the weights.
struct WeightFolding {
  Tensor from;
  Tensor to;
  bool has_factor = false;  // true: the loss scale is taken out
};

void AddFolding(LayerCompiler& compiler, Draft draft, Kernel<FoldWeightsArgs> Kernels::*kernel,
                const WeightFolding& folding) {
  const Shape& shape = compiler.model().parameters[compiler.layer().weights].shape;
  FoldWeightsArgs args;
  args.from_type = folding.from.type;
  args.to_type = folding.to.type;
  args.filters = shape[0];
  args.channels = shape[1];
  args.window = compiler.layer().window();
  const auto make = [=, &parts = compiler.parts()](Access& memory) mutable {
    args.from = memory.Read(folding.from);
    args.to = memory.Write(folding.to);
    if (folding.has_factor) args.factor = parts.Factor(memory);
    return args;
  };
  compiler.program().AddKernel(std::move(draft), kernel, make);
}

void AddCopyOfWeights(LayerCompiler& compiler, const ProductSpec& spec, const Tensor& weights,
                      const Tensor& copy) {
  if (IsFolded(compiler)) {
    AddFolding(compiler, compiler.Named("fold weights"), &Kernels::fold_weights,
               {.from = weights, .to = copy});
    return;
  }
  const Padding padding = PaddingOf(compiler, spec);
  AddConversion(compiler.parts(), compiler.Named("pad weights"),
                {.from = weights,
                 .from_channels = padding.channels,
                 .to = copy,
                 .to_channels = padding.padded,
                 .pixels = padding.pixels});
}

}  // namespace

Tensor WeightsOf(LayerCompiler& compiler, const ProductSpec& spec) {
  const Tensor& weights = compiler.parts().weights[compiler.layer().weights];
  if (IsAsInModel(compiler, spec)) return weights;
  const auto [found, is_new] = compiler.parts().copied_weights.try_emplace(compiler.index());
  if (is_new) {
    const char* const what = IsFolded(compiler) ? "folded weights" : "padded weights";
    found->second = compiler.NewTensor(what, CountOf(spec), compiler.type());
    AddCopyOfWeights(compiler, spec, weights, found->second);
  }
  return found->second;
}

Tensor MadeGradient(LayerCompiler& compiler, const ProductSpec& spec, const Tensor& to) {
  const bool is_direct = spec.result == to.type && IsAsInModel(compiler, spec);
  return is_direct ? to : compiler.NewTensor("made gradient", CountOf(spec), spec.result);
}

void FinishWeightGradient(LayerCompiler& compiler, const ProductSpec& spec, const Tensor& made,
                          const Tensor& to) {
  Draft draft = compiler.ForParameters("finish gradient of weights");
  if (IsFolded(compiler)) {
    AddFolding(compiler, std::move(draft), &Kernels::unfold_weights,
               {.from = made, .to = to, .has_factor = true});
    return;
  }
  if (made.buffer == to.buffer) draft.when = When::kScaledParameters;
  const Padding padding = PaddingOf(compiler, spec);
  AddConversion(compiler.parts(), std::move(draft),
                {.from = made,
                 .from_channels = padding.padded,
                 .to = to,
                 .to_channels = padding.channels,
                 .pixels = padding.pixels,
                 .has_factor = true});
}

}  // namespace millrace::trainer::cuda
