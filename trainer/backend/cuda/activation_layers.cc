// Activations and dropouts.

#include "base/philox.h"
#include "trainer/backend/cuda/layer_compiler.h"

namespace millrace::trainer::cuda {
namespace {

float SlopeOf(const Layer& layer) {
  const auto* const slope = std::get_if<Slope>(&layer.attributes);
  return slope == nullptr ? 0 : static_cast<float>(slope->negative);
}

// True if the kernel computes the derivative from the input.
bool ReadsInputBackward(const Layer& layer) {
  if (layer.kind == LayerKind::kLeakyRelu) return SlopeOf(layer) < 0;
  return layer.kind == LayerKind::kSilu;
}

void AddDropout(LayerCompiler& compiler, const Draft& draft, const Tensor& from, const Target& to) {
  DropoutArgs args;
  args.type = from.type;
  args.row_values = compiler.values().count(compiler.layer().output) / compiler.rows();
  args.rate = std::get<DropRate>(compiler.layer().attributes).rate;
  args.layer = HashName(compiler.layer().name);
  args.accumulates = to.accumulates;
  const auto make = [=, &parts = compiler.parts()](Access& memory) mutable {
    args.batch = parts.Rows(memory, /*reads_valid=*/false, /*reads_step=*/true);
    args.batch.ids = memory.Read<SampleId>(parts.batch.ids);
    args.from = memory.Read(from);
    args.to = to.Open(memory);
    return args;
  };
  compiler.program().AddKernel(draft, &Kernels::dropout, make);
}

}  // namespace

absl::Status ActivationForward(LayerCompiler& compiler) {
  if (compiler.is_fused()) return absl::OkStatus();
  const int value = compiler.layer().output;
  ActivationArgs args;
  args.kind = compiler.layer().kind;
  args.slope = SlopeOf(compiler.layer());
  args.type = compiler.type();
  args.pixels = compiler.values().pixels(value);
  args.channels = compiler.values().channels(value);
  const auto make = [=, source = compiler.source(),
                     output = compiler.output()](Access& memory) mutable {
    args.from = memory.Read(source);
    args.to = memory.Write(output);
    return args;
  };
  compiler.program().AddKernel(compiler.Completing(value, "forward"), &Kernels::activate, make);
  return absl::OkStatus();
}

// A batch norm does the backward pass of its own; the ReLU behind a product has one of its own.
absl::Status ActivationBackward(LayerCompiler& compiler) {
  if (compiler.values().fusion().host(compiler.index()) >= 0) return absl::OkStatus();
  const Target target = compiler.GradientOf(compiler.source_value());
  if (!target) return absl::OkStatus();
  ActivationBackwardArgs args;
  args.kind = compiler.layer().kind;
  args.slope = SlopeOf(compiler.layer());
  args.type = compiler.type();
  args.count = compiler.values().count(compiler.layer().output);
  args.accumulates = target.accumulates;
  const bool by_input = ReadsInputBackward(compiler.layer());
  const auto make = [=, source = compiler.source(), output = compiler.output(),
                     gradient = compiler.output_gradient()](Access& memory) mutable {
    if (by_input) args.input = memory.Read(source);
    if (!by_input) args.output = memory.Read(output);
    args.gradient = memory.Read(gradient);
    args.to = target.Open(memory);
    return args;
  };
  compiler.program().AddKernel(compiler.Named("gradient of input"), &Kernels::activate_backward,
                               make);
  return absl::OkStatus();
}

// In an evaluation the values are there already (Values).
absl::Status DropoutForward(LayerCompiler& compiler) {
  if (!compiler.is_training()) return absl::OkStatus();
  AddDropout(compiler, compiler.Completing(compiler.layer().output, "forward"), compiler.source(),
             {compiler.output()});
  return absl::OkStatus();
}

absl::Status DropoutBackward(LayerCompiler& compiler) {
  const Target target = compiler.GradientOf(compiler.source_value());
  if (!target) return absl::OkStatus();
  AddDropout(compiler, compiler.Named("gradient of input"), compiler.output_gradient(), target);
  return absl::OkStatus();
}

}  // namespace millrace::trainer::cuda
