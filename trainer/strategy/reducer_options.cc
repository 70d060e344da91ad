#include "trainer/strategy/reducer_options.h"

#include "base/dtype.h"
#include "trainer/job/reduction.h"

namespace millrace::trainer {

namespace {

Shape DeviceShape(const Shape& shape) {
  return shape.rank() == 4 ? Shape{shape[0], shape[2], shape[3], shape[1]} : shape;
}

}  // namespace

std::vector<collectives::GradientSpec> GradientSpecsOf(const Model& model, WeightsOrder order) {
  std::vector<collectives::GradientSpec> gradients;
  for (size_t i = model.parameters.size(); i-- > 0;) {
    const Shape& shape = model.parameters[i].shape;
    gradients.push_back(
        {model.parameters[i].name, order == WeightsOrder::kDevice ? DeviceShape(shape) : shape});
  }
  return gradients;
}

std::vector<Piece> OwnPieces(const Model& model, const collectives::GradientReducer& reducer) {
  std::vector<Piece> pieces;
  for (const collectives::GradientShard& shard : reducer.shards()) {
    pieces.push_back({ReducerIndex(model, shard.gradient), shard.begin, shard.end});
  }
  return pieces;
}

collectives::ReducerOptions ReducerOptionsOf(const Reduction& reduction) {
  collectives::ReducerOptions options;
  options.exact = reduction.exact();
  options.average_by_rows = true;
  options.skip_non_finite = reduction.skip_non_finite();
  options.clip_norm = reduction.clip_norm();
  options.shard = reduction.shard_optimizer();
  options.micro_batches = static_cast<int>(reduction.accumulate_steps());
  options.wire = WireOf(reduction.wire_dtype()).value_or(DType::kF32);
  options.bucket_bytes = reduction.bucket_bytes();
  options.edge_bucket_bytes = reduction.edge_bucket_bytes();
  options.policy =
      PolicyOf(reduction.progress_policy()).value_or(collectives::ProgressPolicy::kAuto);
  return options;
}

collectives::StaleOptions StaleOptionsOf(const Reduction& reduction, uint64_t steps) {
  const uint64_t tail = reduction.synchronous_tail();
  return {static_cast<int>(reduction.stale_steps()),
          steps > tail ? static_cast<int64_t>(steps - tail) : 0};
}

}  // namespace millrace::trainer
