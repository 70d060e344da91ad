#ifndef MILLRACE_TRAINER_STRATEGY_UPDATER_H_
#define MILLRACE_TRAINER_STRATEGY_UPDATER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/gradient_reducer.h"
#include "collectives/progress.h"
#include "collectives/stale_reducer.h"
#include "trainer/job/job.pb.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/sgd.h"

namespace millrace::trainer {

// How the gradients of all ranks become new weights, as the job's `reduction` says. Sums and
// weights are the same on all ranks; the optimizer's state is too, or in shards. Thread-compatible.
class Updater {
 public:
  struct Options {
    uint64_t steps = 0;       // of this run
    uint64_t first_step = 0;  // its number in the training
    int compute_threads = 1;
    collectives::Progress* progress = nullptr;  // outlives the updater
  };

  // `velocity`, of all parameters, is zeros or a checkpoint's; `job` has its defaults filled in.
  // Collective; errors of any rank are all ranks' (IsAgreed), or a call failed.
  static absl::StatusOr<std::unique_ptr<Updater>> Make(collectives::Communicator& communicator,
                                                       const Model& model, const Job& job,
                                                       TensorSet velocity, const Options& options);

  // Where backward writes the sums over this rank's rows: the same memory at every step.
  std::vector<std::span<float>> gradients();

  // One batch: its rows (those of all ranks add up to the batch's), each gradient as it is there,
  // the end. Outcomes as the reducer's.
  void SetRows(int64_t rows);
  absl::Status MarkReady(size_t i);
  absl::Status Finish();
  // In place of a batch that the step lacks.
  absl::Status FinishEmptyBatch();
  // This rank takes part in no step any more; the others hear why.
  void Leave(const absl::Status& why);

  // The sums that came with the last Finish, the oldest first: none but after a step's last batch,
  // and none or several where they come late.
  std::span<collectives::GradientReducer* const> ready() const;

  // Updates `weights` by `sums`, those of `step`, unless it is to be skipped. Collective with
  // shards.
  absl::Status Apply(collectives::GradientReducer& sums, int64_t step, double rate,
                     TensorSet& weights);

  // The optimizer's state of all parameters, on rank 0; others may have none. Collective with
  // shards; between two steps. Lives until the next step.
  absl::StatusOr<const TensorSet*> GatherVelocity();
  // Every rank has it without the others.
  bool has_whole_velocity() const { return !is_sharded_; }

  std::string Summary() const;
  // Of all steps whose sums have come; what a save gathers is no step's.
  collectives::ReducerCounters counters() const;

 private:
  Updater(collectives::Communicator& communicator, const Model& model,
          collectives::Progress* progress, bool is_sharded)
      : communicator_(communicator), model_(model), progress_(progress), is_sharded_(is_sharded) {}

  // The reducer counts in the order in which backward makes gradients.
  size_t ReducerIndex(size_t i) const { return model_.parameters.size() - 1 - i; }
  std::vector<Piece> OwnPieces() const;
  // Says that the optimizer has come to the bucket `next`, where it was in another.
  void EnterBucket(int64_t step, size_t next, std::optional<size_t>& bucket);
  absl::Status ApplyToShards(collectives::GradientReducer& sums, int64_t step, double rate,
                             TensorSet& weights);

  collectives::Communicator& communicator_;
  const Model& model_;
  collectives::Progress* const progress_;  // null: nobody to tell
  const bool is_sharded_;
  std::unique_ptr<collectives::GradientReducer> reducer_;  // or:
  std::unique_ptr<collectives::StaleReducer> stale_;       // which has a place for each step
  TensorSet own_gradients_;                                // what backward writes to, with stale_
  collectives::GradientReducer* finished_ = nullptr;       // reducer_, after a whole step
  double gather_seconds_ = 0;                              // for new weights
  std::optional<Sgd> sgd_;
  TensorSet gathered_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_UPDATER_H_
