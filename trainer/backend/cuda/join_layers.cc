// Layers that make one value of several, and reshapes.

#include "trainer/backend/cuda/layer_compiler.h"

namespace millrace::trainer::cuda {
namespace {

// to [+]= a + b, or a * b.
struct Binary {
  bool multiplies = false;
  Tensor a;
  Tensor b;
  Target to;
  int64_t count = 0;
};

void AddBinary(LayerCompiler& compiler, const Draft& draft, const Binary& binary) {
  compiler.program().AddKernel(draft, &Kernels::binary, [binary](Access& memory) {
    BinaryArgs args;
    args.multiplies = binary.multiplies;
    args.type = binary.a.type;
    args.a = memory.Read(binary.a);
    args.b = memory.Read(binary.b);
    args.to = binary.to.Open(memory);
    args.count = binary.count;
    args.accumulates = binary.to.accumulates;
    return args;
  });
}

// Channels of one tensor that are those of another, from `begin` on.
struct Slice {
  Tensor part;
  int64_t width = 0;
  Tensor whole;
  int64_t whole_width = 0;
  int64_t begin = 0;
  int64_t pixels = 0;
};

SliceArgs SizesOf(const Slice& slice) {
  SliceArgs args;
  args.type = slice.part.type;
  args.width = slice.width;
  args.rows = slice.pixels;
  return args;
}

// The slice of the output that is input `slot`.
Slice SliceOf(LayerCompiler& compiler, size_t slot) {
  const Values& values = compiler.values();
  const int output = compiler.layer().output;
  Slice slice;
  slice.part = compiler.source(slot);
  slice.width = values.channels(compiler.source_value(slot));
  slice.whole = compiler.output();
  slice.whole_width = values.channels(output);
  slice.pixels = values.pixels(output);
  for (size_t i = 0; i < slot; ++i) slice.begin += values.channels(compiler.source_value(i));
  return slice;
}

}  // namespace

absl::Status AddForward(LayerCompiler& compiler) {
  if (compiler.is_fused()) return absl::OkStatus();
  const int value = compiler.layer().output;
  const int64_t count = compiler.values().count(value);
  AddBinary(compiler,
            compiler.Completing(compiler.layer().inputs.size() == 2 ? value : -1, "forward"),
            {.a = compiler.source(0),
             .b = compiler.source(1),
             .to = {compiler.output()},
             .count = count});
  for (size_t i = 2; i < compiler.layer().inputs.size(); ++i) {
    const bool is_last = i + 1 == compiler.layer().inputs.size();
    AddCopy(compiler.parts(), compiler.Completing(is_last ? value : -1, "forward"),
            compiler.source(i), {compiler.output(), /*accumulates=*/true}, count);
  }
  return absl::OkStatus();
}

// Terms that share the gradient of the sum have it already.
absl::Status AddBackward(LayerCompiler& compiler) {
  if (compiler.is_fused()) return absl::OkStatus();
  const Tensor gradient = compiler.output_gradient();
  const int64_t count = compiler.values().count(compiler.layer().output);
  for (const int value : compiler.layer().inputs) {
    const Target target = compiler.GradientOf(value);
    if (!target || target.to.buffer == gradient.buffer) continue;
    AddCopy(compiler.parts(), compiler.Named("gradient of input"), gradient, target, count);
  }
  return absl::OkStatus();
}

absl::Status MultiplyForward(LayerCompiler& compiler) {
  const int value = compiler.layer().output;
  AddBinary(compiler, compiler.Completing(value, "forward"),
            {.multiplies = true,
             .a = compiler.source(0),
             .b = compiler.source(1),
             .to = {compiler.output()},
             .count = compiler.values().count(value)});
  return absl::OkStatus();
}

absl::Status MultiplyBackward(LayerCompiler& compiler) {
  for (size_t i = 0; i < 2; ++i) {
    const Target target = compiler.GradientOf(compiler.source_value(i));
    if (!target) continue;
    AddBinary(compiler, compiler.Named("gradient of input"),
              {.multiplies = true,
               .a = compiler.output_gradient(),
               .b = compiler.source(1 - i),
               .to = target,
               .count = compiler.values().count(compiler.layer().output)});
  }
  return absl::OkStatus();
}

absl::Status ConcatForward(LayerCompiler& compiler) {
  const size_t inputs = compiler.layer().inputs.size();
  for (size_t i = 0; i < inputs; ++i) {
    const Slice slice = SliceOf(compiler, i);
    const int value = i + 1 == inputs ? compiler.layer().output : -1;
    compiler.program().AddKernel(compiler.Completing(value, "forward"), &Kernels::slice,
                                 [slice](Access& memory) {
                                   SliceArgs args = SizesOf(slice);
                                   args.from = memory.Read(slice.part);
                                   args.from_width = slice.width;
                                   // Other slices of it stay.
                                   args.to = memory.Update(slice.whole);
                                   args.to_width = slice.whole_width;
                                   args.to_begin = slice.begin;
                                   return args;
                                 });
  }
  return absl::OkStatus();
}

absl::Status ConcatBackward(LayerCompiler& compiler) {
  for (size_t i = 0; i < compiler.layer().inputs.size(); ++i) {
    const Slice slice = SliceOf(compiler, i);
    const Target target = compiler.GradientOf(compiler.source_value(i));
    if (!target) continue;
    compiler.program().AddKernel(
        compiler.Named("gradient of input"), &Kernels::slice,
        [slice, target, gradient = compiler.output_gradient()](Access& memory) {
          SliceArgs args = SizesOf(slice);
          args.from = memory.Read(gradient);
          args.from_width = slice.whole_width;
          args.from_begin = slice.begin;
          args.to = target.Open(memory);
          args.to_width = slice.width;
          args.accumulates = target.accumulates;
          return args;
        });
  }
  return absl::OkStatus();
}

// The values are there already. So is the gradient, where nothing else reads the input.
absl::Status ReshapeForward(LayerCompiler&) { return absl::OkStatus(); }

absl::Status ReshapeBackward(LayerCompiler& compiler) {
  const Tensor gradient = compiler.output_gradient();
  const Target target = compiler.GradientOf(compiler.source_value());
  if (!target || target.to.buffer == gradient.buffer) return absl::OkStatus();
  AddCopy(compiler.parts(), compiler.Named("gradient of input"), gradient, target,
          compiler.values().count(compiler.layer().output));
  return absl::OkStatus();
}

}  // namespace millrace::trainer::cuda
