// Convolutions, transposed ones, and fully connected layers. Where the device has no code for a
// product with its epilogues, the plain product and kernels do the same.

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/backend/cuda/layer_compiler.h"
#include "trainer/backend/cuda/product_weights.h"
#include "trainer/backend/cuda/products_of.h"

namespace millrace::trainer::cuda {
namespace {

using SharedProduct = std::shared_ptr<const Product>;

LayerProducts ProductsOf(LayerCompiler& compiler) {
  return ProductsOfLayer(compiler.model(), compiler.index(), compiler.rows(),
                         compiler.parts().compiled.use,
                         {compiler.type(), compiler.parts().options.tf32});
}

bool IsTransposed(LayerCompiler& compiler) {
  return compiler.layer().kind == LayerKind::kTransposedConvolution;
}

// The operands of a product by the layer's view of them: `in` and `out` are the layer's input and
// output, or their gradients.
ProductTensors OperandsOf(bool is_transposed, void* in, void* weights, void* out) {
  ProductTensors tensors;
  tensors.x = is_transposed ? out : in;
  tensors.y = is_transposed ? in : out;
  tensors.w = weights;
  return tensors;
}

// Products take no const pointers; they write to their result alone.
void* ReadOf(Access& memory, const Part& part) { return const_cast<void*>(memory.Read(part)); }

// The image that the products read: the input, or its folded copy.
const Tensor& SourceOf(LayerCompiler& compiler) {
  return compiler.values().ReadsFolded(compiler.index())
             ? compiler.values().folded(compiler.source_value())
             : compiler.source();
}

// --- Forward ---

// How a layer's output is made: a product with epilogues, and the rest as a kernel.
struct Forward {
  SharedProduct product;
  Tensor result;  // of the product
  bool has_bias = false;
  bool has_relu = false;
};

// The epilogues are those of a convolution's forward pass.
absl::StatusOr<SharedProduct> TryFused(LayerCompiler& compiler, ProductSpec spec) {
  spec.has_bias = compiler.layer().bias >= 0;
  spec.has_relu = compiler.has_fused_relu();
  const bool may = compiler.fuses() && spec.pass == ProductPass::kForward;
  if (!may || (!spec.has_bias && !spec.has_relu)) return SharedProduct();
  return compiler.TryProduct(spec);
}

absl::StatusOr<Forward> ChooseForward(LayerCompiler& compiler, const ProductSpec& spec) {
  Forward forward;
  forward.result = compiler.output();
  MILLRACE_ASSIGN_OR_RETURN(forward.product, TryFused(compiler, spec));
  if (forward.product != nullptr) return forward;
  forward.has_bias = compiler.layer().bias >= 0;
  forward.has_relu = compiler.has_fused_relu();
  MILLRACE_ASSIGN_OR_RETURN(forward.product, compiler.TryProduct(spec));
  if (forward.product != nullptr) return forward;
  ProductSpec rounded = spec;
  rounded.result = spec.type;
  MILLRACE_ASSIGN_OR_RETURN(forward.product, compiler.MakeProduct(rounded));
  if (rounded.result != spec.result) {
    const int64_t count = compiler.values().count(compiler.layer().output);
    forward.result = compiler.NewTensor("rounded result", count, spec.type);
  }
  return forward;
}

// Bias and ReLU behind the product.
void AddEpilogues(LayerCompiler& compiler, const Forward& forward) {
  if (!forward.has_bias && !forward.has_relu) return;
  const int value = compiler.layer().output;
  const Tensor output = compiler.output();
  Part bias;
  if (forward.has_bias) bias = compiler.parts().masters[compiler.layer().bias];
  ActivationArgs args;
  args.kind = forward.has_relu ? LayerKind::kRelu : LayerKind::kAdd;
  args.type = output.type;
  args.pixels = compiler.values().pixels(value);
  args.channels = compiler.values().channels(value);
  const auto make = [=](Access& memory) mutable {
    args.bias = memory.Read<float>(bias);
    args.to = memory.Update(output);
    args.from = args.to;
    return args;
  };
  compiler.program().AddKernel(compiler.Completing(value, "bias"), &Kernels::activate, make);
}

// --- Backward ---

void AddBiasGradient(LayerCompiler& compiler) {
  const int value = compiler.layer().output;
  const Tensor gradient = compiler.output_gradient();
  const Part sums = compiler.parts().gradients[compiler.layer().bias];
  ColumnSumsArgs args;
  args.type = gradient.type;
  args.pixels = compiler.values().pixels(value);
  args.channels = compiler.values().channels(value);
  const auto make = [=, &parts = compiler.parts()](Access& memory) mutable {
    args.from = memory.Read(gradient);
    args.sums = memory.Write<float>(sums);
    args.factor = parts.Factor(memory);
    args.scratch = memory.Write(parts.scratch);
    return args;
  };
  compiler.program().AddKernel(compiler.ForParameters("gradient of bias"), &Kernels::column_sums,
                               make);
  compiler.program().Cut({compiler.layer().bias});
}

absl::Status AddWeightGradient(LayerCompiler& compiler, ProductSpec spec) {
  MILLRACE_ASSIGN_OR_RETURN(SharedProduct product, compiler.TryProduct(spec));
  if (product == nullptr) {
    spec.result = spec.type;
    MILLRACE_ASSIGN_OR_RETURN(product, compiler.MakeProduct(spec));
  }
  const Tensor to = {compiler.parts().gradients[compiler.layer().weights], DType::kF32};
  const Tensor made = MadeGradient(compiler, spec, to);
  const Tensor output_gradient = compiler.output_gradient();
  compiler.AddProduct(
      compiler.ForParameters("gradient of weights"), std::move(product),
      [=, is_transposed = IsTransposed(compiler), source = SourceOf(compiler)](Access& memory) {
        void* const in = ReadOf(memory, source);
        void* const out = ReadOf(memory, output_gradient);
        return OperandsOf(is_transposed, in, memory.Write(made), out);
      });
  FinishWeightGradient(compiler, spec, made, to);
  compiler.program().Cut({compiler.layer().weights});
  return absl::OkStatus();
}

// The gradient of the input, which the product adds to what is there, if the device can.
absl::Status AddDataGradient(LayerCompiler& compiler, ProductSpec spec) {
  const Target target = compiler.GradientOf(compiler.source_value());
  if (!target) return absl::OkStatus();
  const Tensor weights = WeightsOf(compiler, spec);
  const bool is_transposed = IsTransposed(compiler);
  SharedProduct product;
  spec.has_addend = target.accumulates && !is_transposed;
  if (spec.has_addend && compiler.fuses()) {
    MILLRACE_ASSIGN_OR_RETURN(product, compiler.TryProduct(spec));
  }
  const bool adds = product != nullptr;
  spec.has_addend = false;
  if (!adds) {
    MILLRACE_ASSIGN_OR_RETURN(product, compiler.MakeProduct(spec));
  }
  const int64_t count = compiler.values().count(compiler.source_value());
  const bool is_apart = target.accumulates && !adds;
  const Tensor made = is_apart ? compiler.NewTensor("term", count, spec.result) : target.to;
  const Tensor output_gradient = compiler.output_gradient();
  compiler.AddProduct(compiler.Named("gradient of input"), std::move(product), [=](Access& memory) {
    void* const w = ReadOf(memory, weights);
    void* const out = ReadOf(memory, output_gradient);
    void* const in = adds ? memory.Update(made) : memory.Write(made);
    ProductTensors tensors = OperandsOf(is_transposed, in, w, out);
    if (adds) tensors.addend = in;
    return tensors;
  });
  if (is_apart) AddCopy(compiler.parts(), compiler.Named("add gradient"), made, target, count);
  return absl::OkStatus();
}

}  // namespace

absl::Status ProductForward(LayerCompiler& compiler) {
  const ProductSpec spec = ProductsOf(compiler).forward;
  const Tensor weights = WeightsOf(compiler, spec);
  MILLRACE_ASSIGN_OR_RETURN(const Forward forward, ChooseForward(compiler, spec));
  const bool has_fused_bias = compiler.layer().bias >= 0 && !forward.has_bias;
  Part bias;
  if (has_fused_bias) bias = compiler.parts().masters[compiler.layer().bias];
  const int value = compiler.layer().output;
  compiler.AddProduct(
      compiler.Completing(forward.has_bias || forward.has_relu ? -1 : value, "forward"),
      forward.product,
      [=, is_transposed = IsTransposed(compiler), source = SourceOf(compiler),
       result = forward.result](Access& memory) {
        void* const in = ReadOf(memory, source);
        void* const w = ReadOf(memory, weights);
        ProductTensors tensors = OperandsOf(is_transposed, in, w, memory.Write(result));
        tensors.bias = memory.Read<float>(bias);
        return tensors;
      });
  if (forward.result.buffer != compiler.output().buffer) {
    AddConversion(compiler.parts(), compiler.Completing(value, "convert"),
                  {.from = forward.result,
                   .to = compiler.output(),
                   .pixels = compiler.values().count(value)});
  }
  AddEpilogues(compiler, forward);
  return absl::OkStatus();
}

absl::Status ProductBackward(LayerCompiler& compiler) {
  const LayerProducts products = ProductsOf(compiler);
  if (compiler.layer().bias >= 0) AddBiasGradient(compiler);
  MILLRACE_RETURN_IF_ERROR(AddWeightGradient(compiler, *products.weight_gradient));
  return AddDataGradient(compiler, *products.data_gradient);
}

}  // namespace millrace::trainer::cuda
