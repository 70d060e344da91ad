#include "trainer/backend/cuda/pool_sizes.h"

namespace millrace::trainer::cuda {

PoolArgs PoolSizes(const Model& model, const Layer& layer, int64_t rows) {
  const Shape& from = model.values[layer.inputs[0]].shape;
  const Shape& to = model.values[layer.output].shape;
  const bool is_global = layer.kind == LayerKind::kGlobalAveragePool;
  PoolArgs args;
  args.is_average = layer.kind != LayerKind::kMaxPool;
  args.rows = rows;
  args.height = from[0];
  args.width = from[1];
  args.channels = from[2];
  args.out_height = is_global ? 1 : to[0];
  args.out_width = is_global ? 1 : to[1];
  if (is_global) {
    args.window.kernel = {from[0], from[1]};
  } else {
    args.window = layer.window();
  }
  return args;
}

}  // namespace millrace::trainer::cuda
