#ifndef MILLRACE_TRAINER_RANKS_STEP_SUMS_H_
#define MILLRACE_TRAINER_RANKS_STEP_SUMS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/progress.h"

namespace millrace::trainer {

// Sums over ranks that the layers of a model need in the midst of a step, while gradients are on
// their way. They have a group of their own, so that a rank that fails can tell the others why, and
// are made on the thread that computes: every rank comes to the same sums in the same order, and
// none of them has to wait for a gradient of another rank first, since marking one never waits.
// Thread-compatible.
class StepSums {
 public:
  // Collective. `progress` outlives it. Outcomes are Communicator::Split's.
  static absl::StatusOr<std::unique_ptr<StepSums>> Make(collectives::Communicator& communicator,
                                                        collectives::Progress& progress);

  // Replaces each of `values` by its sum over ranks, in ascending order, with the same bits on
  // every rank. Collective.
  //   UNAVAILABLE        a rank is lost, or has left; PeerLostOf tells which
  //   other              as Communicator's
  absl::Status Add(uint64_t step, std::span<double> values);

  // Ends this rank's part in `step`; the others hear `why`: "rank 1 is lost in step 812 (backward):
  // it has failed: DATA_LOSS: ..." (updating: it has had no sum of the step). If `why` names a lost
  // rank itself, they get it unchanged.
  void Leave(int64_t step, const absl::Status& why);

  // The seconds that Add has taken since the last call.
  double TakeSeconds() { return std::exchange(seconds_, 0); }

 private:
  StepSums(std::unique_ptr<collectives::Communicator> group, collectives::Progress& progress)
      : group_(std::move(group)), progress_(progress) {}

  const std::unique_ptr<collectives::Communicator> group_;
  collectives::Progress& progress_;
  int64_t step_ = -1;  // of the last sum
  double seconds_ = 0;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RANKS_STEP_SUMS_H_
