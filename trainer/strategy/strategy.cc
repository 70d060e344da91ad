// Three ways from gradients to weights:
//   synchronous  backward writes into the reducer's buckets; every rank updates all weights with
//                the same sums
//   sharded      the same, but each rank updates only the shards that it has the sums of, and has
//                the optimizer's state only for these
//   stale        sums come some steps late, so that no step waits for its own

#include "trainer/strategy/strategy.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "collectives/stale_reducer.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/strategy/reducer_options.h"
#include "trainer/strategy/sharded.h"
#include "trainer/strategy/stale.h"
#include "trainer/strategy/synchronous.h"
#include "trainer/strategy/weight_update.h"

namespace millrace::trainer {

using collectives::Communicator;
using collectives::GradientReducer;
using collectives::StaleReducer;

absl::Status Strategy::FinishEmptyBatch() {
  SetRows(0);
  const std::vector<std::span<float>> spans = gradients();
  for (size_t i = spans.size(); i-- > 0;) {
    std::ranges::fill(spans[i], 0.0f);
    MILLRACE_RETURN_IF_ERROR(MarkReady(i));
  }
  return Finish();
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(Communicator& communicator,
                                                       const Model& model,
                                                       const Reduction& reduction,
                                                       const OptimizerSpec& optimizer, Slots slots,
                                                       const StrategyOptions& options) {
  collectives::ReducerOptions reducer_options = ReducerOptionsOf(reduction);
  reducer_options.progress = options.progress;
  reducer_options.team = options.team;
  reducer_options.first_step = static_cast<int64_t>(options.first_step);
  reducer_options.compute_threads = options.compute_threads;
  reducer_options.caller_communicates = options.layers_communicate;
  const bool is_sharded = reduction.shard_optimizer();
  const auto make_update = [&](std::vector<Piece> pieces) {
    return WeightUpdate(model, Optimizer(optimizer, model, std::move(slots), std::move(pieces)),
                        options.progress, is_sharded ? &communicator : nullptr,
                        options.compute_threads);
  };
  if (reduction.stale_steps() > 0) {
    MILLRACE_ASSIGN_OR_RETURN(
        auto reducer, StaleReducer::Make(communicator, GradientSpecsOf(model), reducer_options,
                                         StaleOptionsOf(reduction, options.steps)));
    return std::make_unique<StaleStrategy>(model, std::move(reducer),
                                           make_update(WholeParameters(model)));
  }
  MILLRACE_ASSIGN_OR_RETURN(
      auto reducer, GradientReducer::Make(communicator, GradientSpecsOf(model), reducer_options));
  WeightUpdate update =
      make_update(is_sharded ? OwnPieces(model, *reducer) : WholeParameters(model));
  if (!is_sharded) {
    return std::make_unique<SynchronousStrategy>(model, std::move(reducer), std::move(update));
  }
  return std::make_unique<ShardedStrategy>(communicator, model, std::move(reducer),
                                           std::move(update), options.progress);
}

}  // namespace millrace::trainer
