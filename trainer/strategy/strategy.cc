// Three ways from gradients to weights:
//   synchronous  backward writes into the reducer's buckets; every rank updates all weights with
//                the same sums
//   sharded      the same, but each rank updates only the shards that it has the sums of, and has
//                the optimizer's state only for these
//   stale        sums come some steps late, so that no step waits for its own

#include "trainer/strategy/strategy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status.h"
#include "collectives/device_communicator.h"
#include "collectives/stale_reducer.h"
#include "trainer/backend/cuda/parameter_store.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/ranks/agree.h"
#include "trainer/strategy/device_weight_update.h"
#include "trainer/strategy/host_weight_update.h"
#include "trainer/strategy/reducer_options.h"
#include "trainer/strategy/sharded.h"
#include "trainer/strategy/stale.h"
#include "trainer/strategy/synchronous.h"

namespace millrace::trainer {

using collectives::Communicator;
using collectives::GradientReducer;
using collectives::StaleReducer;

absl::Status Strategy::FinishEmptyBatch() {
  SetRows(0);
  const std::vector<std::span<float>> spans = gradients();
  for (size_t i = spans.size(); i-- > 0;) {
    if (store() != nullptr) {
      MILLRACE_RETURN_IF_ERROR(store()->device().Zero(spans[i].data(), spans[i].size_bytes()));
    } else {
      std::ranges::fill(spans[i], 0.0f);
    }
    MILLRACE_RETURN_IF_ERROR(MarkReady(i));
  }
  return Finish();
}

absl::Status Strategy::StoreWeights(const TensorSet& weights) {
  return store() == nullptr ? absl::OkStatus() : store()->Import(weights);
}

absl::Status Strategy::FetchWeights(TensorSet& weights) {
  return store() == nullptr ? absl::OkStatus() : store()->Export(weights);
}

absl::Status Strategy::StoreBuffers(const TensorSet& buffers) {
  return store() == nullptr ? absl::OkStatus() : store()->ImportBuffers(buffers);
}

absl::StatusOr<bool> Strategy::AreFinite(const TensorSet& weights) {
  if (store() != nullptr) return store()->AreFinite();
  return std::ranges::all_of(weights, [](const std::vector<float>& tensor) {
    return std::ranges::all_of(tensor, [](float value) { return std::isfinite(value); });
  });
}

namespace {

// Makes the parts of a strategy.
class StrategyMaker {
 public:
  // All but `slots` outlive it.
  StrategyMaker(Communicator& communicator, const Model& model, const Reduction& reduction,
                const OptimizerSpec& optimizer, Slots slots, const StrategyOptions& options)
      : communicator_(communicator),
        model_(model),
        reduction_(reduction),
        optimizer_(optimizer),
        slots_(std::move(slots)),
        options_(options) {}

  absl::StatusOr<std::unique_ptr<Strategy>> Make();

 private:
  collectives::ReducerOptions ReducerOptionsOfRun() const;
  std::vector<collectives::GradientSpec> Specs() const {
    return GradientSpecsOf(
        model_, options_.device != nullptr ? WeightsOrder::kDevice : WeightsOrder::kModel);
  }
  // The group for numbers of the host: over NCCL that beside it.
  Communicator& hosts() const {
    collectives::DeviceCommunicator* const on_device = communicator_.on_device();
    return on_device != nullptr ? on_device->bootstrap() : communicator_;
  }
  absl::StatusOr<std::unique_ptr<WeightUpdate>> MakeUpdate(
      std::vector<Piece> pieces, std::vector<cuda::GradientPlace> gradients);
  absl::StatusOr<std::unique_ptr<WeightUpdate>> MakeDeviceUpdate(
      std::vector<Piece> pieces, std::vector<cuda::GradientPlace> gradients);
  absl::StatusOr<std::unique_ptr<Strategy>> MakeStale();

  Communicator& communicator_;
  const Model& model_;
  const Reduction& reduction_;
  const OptimizerSpec& optimizer_;
  Slots slots_;
  const StrategyOptions& options_;
};

collectives::ReducerOptions StrategyMaker::ReducerOptionsOfRun() const {
  collectives::ReducerOptions options = ReducerOptionsOf(reduction_);
  options.progress = options_.progress;
  options.team = options_.team;
  options.first_step = static_cast<int64_t>(options_.first_step);
  options.compute_threads = options_.device != nullptr ? 0 : options_.compute_threads;
  options.caller_communicates = options_.ranks_communicate;
  options.uses_sums_on_stream = options_.device != nullptr;
  return options;
}

absl::StatusOr<std::unique_ptr<WeightUpdate>> StrategyMaker::MakeDeviceUpdate(
    std::vector<Piece> pieces, std::vector<cuda::GradientPlace> gradients) {
  cuda::StoreOptions store;
  store.compute = options_.compute;
  store.gradients = std::move(gradients);
  store.copies_gradients = reduction_.stale_steps() > 0;
  for (const Slot& slot : slots_) store.slots.push_back(slot.name);
  store.pieces = std::move(pieces);
  DeviceUpdateOptions update;
  update.progress = options_.progress;
  update.communicator = reduction_.shard_optimizer() ? &hosts() : nullptr;
  return DeviceWeightUpdate::Make(*options_.device, model_, optimizer_, slots_, std::move(store),
                                  update);
}

absl::StatusOr<std::unique_ptr<WeightUpdate>> StrategyMaker::MakeUpdate(
    std::vector<Piece> pieces, std::vector<cuda::GradientPlace> gradients) {
  if (options_.device != nullptr) {
    auto made = MakeDeviceUpdate(std::move(pieces), std::move(gradients));
    MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(hosts(), made.status()));
    return made;
  }
  return std::make_unique<HostWeightUpdate>(
      model_, Optimizer(optimizer_, model_, std::move(slots_), std::move(pieces)),
      options_.progress, reduction_.shard_optimizer() ? &communicator_ : nullptr,
      options_.compute_threads);
}

absl::StatusOr<std::unique_ptr<Strategy>> StrategyMaker::MakeStale() {
  MILLRACE_ASSIGN_OR_RETURN(auto reducer,
                            StaleReducer::Make(communicator_, Specs(), ReducerOptionsOfRun(),
                                               StaleOptionsOf(reduction_, options_.steps)));
  MILLRACE_ASSIGN_OR_RETURN(auto update,
                            MakeUpdate(WholeParameters(model_), PlacesOf(model_, *reducer)));
  return std::make_unique<StaleStrategy>(model_, std::move(reducer), std::move(update));
}

absl::StatusOr<std::unique_ptr<Strategy>> StrategyMaker::Make() {
  if (reduction_.stale_steps() > 0) return MakeStale();
  MILLRACE_ASSIGN_OR_RETURN(auto reducer,
                            GradientReducer::Make(communicator_, Specs(), ReducerOptionsOfRun()));
  const bool is_sharded = reduction_.shard_optimizer();
  std::vector<Piece> pieces = is_sharded ? OwnPieces(model_, *reducer) : WholeParameters(model_);
  MILLRACE_ASSIGN_OR_RETURN(auto update, MakeUpdate(std::move(pieces), PlacesOf(model_, *reducer)));
  if (!is_sharded) {
    return std::make_unique<SynchronousStrategy>(model_, std::move(reducer), std::move(update));
  }
  return std::make_unique<ShardedStrategy>(hosts(), model_, std::move(reducer), std::move(update),
                                           options_.progress);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(Communicator& communicator,
                                                       const Model& model,
                                                       const Reduction& reduction,
                                                       const OptimizerSpec& optimizer, Slots slots,
                                                       const StrategyOptions& options) {
  return StrategyMaker(communicator, model, reduction, optimizer, std::move(slots), options).Make();
}

}  // namespace millrace::trainer
