#ifndef MILLRACE_COLLECTIVES_STALE_REDUCER_H_
#define MILLRACE_COLLECTIVES_STALE_REDUCER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/gradient_reducer.h"

namespace millrace::collectives {

struct StaleOptions {
  int delay = 1;  // steps by which sums come late; each takes memory for all gradients once more
  // The number of first steps that end with late sums; all later ones are synchronous.
  int64_t pipelined_steps = 0;
};

// A reducer whose first steps do not wait for their own sums: step s ends with the sums of step
// s - delay. From step `pipelined_steps` on each step ends with its own sums; the first of these
// also gets all sums that are still missing. Every step's sums come once, in order.
// Thread-compatible.
class StaleReducer {
 public:
  // Collective; the outcomes are GradientReducer::Make's, and
  //   INVALID_ARGUMENT  a delay outside of 0 to 16, negative pipelined_steps, micro-batches or
  //                     shards; or the ranks' options differ
  static absl::StatusOr<std::unique_ptr<StaleReducer>> Make(Communicator& communicator,
                                                            std::vector<GradientSpec> gradients,
                                                            const ReducerOptions& options,
                                                            const StaleOptions& stale);

  // As GradientReducer's, for the running step.
  TensorView gradient(size_t i) { return running().gradient(i); }
  size_t bucket_of(size_t i) const { return running().bucket_of(i); }
  void SetRows(int64_t rows) { running().SetRows(rows); }
  absl::Status MarkReady(size_t i);
  // Ends this rank's part in all steps, as GradientReducer's.
  void Leave(const absl::Status& why);
  // Ends the step; waits only for the sums that are due. Outcomes as GradientReducer's.
  absl::Status Finish();

  // The sums that came with the last Finish, the oldest first: gradient() and outcome() of each.
  // They last until the next step writes its gradients.
  std::span<GradientReducer* const> ready() const { return ready_; }
  // The summary of one step's reducer, for the start-up table.
  std::string Summary() const { return slots_[0]->Summary(); }

  // The counters of all steps whose sums have come. last_awaited is that of the newest of ready(),
  // last_finish_seconds the sum over ready().
  ReducerCounters counters() const;

 private:
  friend class StaleMaker;
  StaleReducer(size_t num_gradients, const StaleOptions& stale)
      : stale_(stale), marked_(num_gradients) {}
  GradientReducer& of_step(int64_t step) const {
    return *slots_[static_cast<size_t>(step) % slots_.size()];
  }
  GradientReducer& running() const { return of_step(step_); }

  const StaleOptions stale_;
  std::unique_ptr<ReducerTeam> team_;  // null if the caller has a team
  std::vector<std::unique_ptr<GradientReducer>> slots_;
  int64_t step_ = 0;  // the running step
  int64_t due_ = 0;   // the sums of steps before it have come
  absl::Status left_;
  std::vector<bool> marked_;
  std::vector<GradientReducer*> ready_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_STALE_REDUCER_H_
