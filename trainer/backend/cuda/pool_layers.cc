#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/backend/cuda/layer_compiler.h"
#include "trainer/backend/cuda/pool_sizes.h"

namespace millrace::trainer::cuda {
namespace {

PoolArgs SizesOf(LayerCompiler& compiler) {
  PoolArgs args = PoolSizes(compiler.model(), compiler.layer(), compiler.rows());
  args.type = compiler.type();
  return args;
}

// Places of maxima are bytes.
absl::Status CheckWindow(const Layer& layer) {
  constexpr int64_t kMost = 256;
  if (layer.kind != LayerKind::kMaxPool) return absl::OkStatus();
  const auto [height, width] = layer.window().kernel;
  if (height * width <= kMost) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("layer '", layer.name, "': a max pool of ", height,
                                               " x ", width, " values; a device takes ", kMost,
                                               " at most"));
}

}  // namespace

// A batch norm that does the pool has done so.
absl::Status PoolForward(LayerCompiler& compiler) {
  if (compiler.is_fused()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(CheckWindow(compiler.layer()));
  const int value = compiler.layer().output;
  Part& places = compiler.parts().saved[compiler.index()];
  const bool has_places = compiler.is_training() && compiler.layer().kind == LayerKind::kMaxPool &&
                          compiler.values().gradient(compiler.source_value());
  if (has_places) {
    places = compiler.NewTensor("places", compiler.values().count(value), DType::kU8);
  }
  const auto make = [=, args = SizesOf(compiler), source = compiler.source(), places = places,
                     output = compiler.output()](Access& memory) mutable {
    args.from = memory.Read(source);
    args.to = memory.Write(output);
    args.places = memory.Write<uint8_t>(places);
    return args;
  };
  compiler.program().AddKernel(compiler.Completing(value, "forward"), &Kernels::pool, make);
  return absl::OkStatus();
}

absl::Status PoolBackward(LayerCompiler& compiler) {
  if (compiler.is_fused()) return absl::OkStatus();
  const Target target = compiler.GradientOf(compiler.source_value());
  if (!target) return absl::OkStatus();
  const auto make = [=, args = SizesOf(compiler), gradient = compiler.output_gradient(),
                     places = compiler.parts().saved[compiler.index()]](Access& memory) mutable {
    args.from = memory.Read(gradient);
    args.places = const_cast<uint8_t*>(memory.Read<uint8_t>(places));
    args.to = target.Open(memory);
    args.accumulates = target.accumulates;
    return args;
  };
  compiler.program().AddKernel(compiler.Named("gradient of input"), &Kernels::pool_backward, make);
  return absl::OkStatus();
}

}  // namespace millrace::trainer::cuda
