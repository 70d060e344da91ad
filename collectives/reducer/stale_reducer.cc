// Late sums by turns: delay + 1 reducers, each with memory of its own; step s takes that of step
// s - delay - 1, whose sums have been used. While one waits, all go on (ReducerTeam), or their
// threads do.

#include "collectives/stale_reducer.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/reducer/make_reducer.h"

namespace millrace::collectives {
namespace {

constexpr int kMaxDelay = 16;

absl::Status CheckOptions(const ReducerOptions& options, const StaleOptions& stale) {
  if (stale.delay < 0 || stale.delay > kMaxDelay) {
    return absl::InvalidArgumentError(
        absl::StrCat("delay ", stale.delay, " is not from 0 to ", kMaxDelay));
  }
  if (stale.pipelined_steps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("pipelined_steps ", stale.pipelined_steps, " is negative"));
  }
  if (options.micro_batches != 1 || options.shard) {
    return absl::InvalidArgumentError("late sums go neither with micro-batches nor with shards");
  }
  return absl::OkStatus();
}

// All ranks have the same options, and good ones. Collective.
absl::Status Agree(Communicator& communicator, const absl::Status& checked,
                   const StaleOptions& stale) {
  const std::array<int64_t, 3> own = {checked.ok() ? 1 : 0, stale.delay, stale.pipelined_steps};
  std::vector<std::array<int64_t, 3>> all(static_cast<size_t>(communicator.size()));
  MILLRACE_RETURN_IF_ERROR(
      communicator.AllGather({own.data(), DType::kI64, Shape{3}},
                             {all.data(), DType::kI64, Shape{3 * communicator.size()}}));
  if (!checked.ok()) return MarkAgreed(checked);
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r][0] == 1 && all[r] == all[0]) continue;
    return MarkAgreed(absl::InvalidArgumentError(absl::StrCat(
        "delay and pipelined_steps are ", all[0][1], " and ", all[0][2], " on rank 0, ", all[r][1],
        " and ", all[r][2], " on rank ", r, all[r][0] == 1 ? "" : ", which refuses them")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StaleReducer>> StaleReducer::Make(
    Communicator& communicator, std::vector<GradientSpec> gradients, const ReducerOptions& options,
    const StaleOptions& stale) {
  return StaleMaker::Make(communicator, std::move(gradients), options, stale);
}

absl::StatusOr<std::unique_ptr<StaleReducer>> StaleMaker::Make(Communicator& communicator,
                                                               std::vector<GradientSpec> gradients,
                                                               PrivateReducerOptions options,
                                                               const StaleOptions& stale) {
  MILLRACE_RETURN_IF_ERROR(Agree(communicator, CheckOptions(options, stale), stale));
  std::unique_ptr<StaleReducer> made(new StaleReducer(gradients.size(), stale));
  if (options.team == nullptr) {
    made->team_ = std::make_unique<ReducerTeam>();
    options.team = made->team_.get();
  }
  options.step_stride = stale.delay + 1;
  for (int slot = 0; slot <= stale.delay; ++slot, ++options.first_step) {
    MILLRACE_ASSIGN_OR_RETURN(auto reducer, MakePlanned(communicator, gradients, options));
    made->slots_.push_back(std::move(reducer));
  }
  return made;
}

void StaleReducer::Leave(const absl::Status& why) {
  if (left_.ok()) left_ = why;
  for (const auto& slot : slots_) slot->Leave(why);
}

absl::Status StaleReducer::MarkReady(size_t i) {
  MILLRACE_RETURN_IF_ERROR(left_);
  MILLRACE_RETURN_IF_ERROR(running().MarkReady(i));
  marked_[i] = true;
  return absl::OkStatus();
}

absl::Status StaleReducer::Finish() {
  MILLRACE_RETURN_IF_ERROR(left_);
  const auto missing = std::find(marked_.begin(), marked_.end(), false);
  if (missing != marked_.end()) return running().Finish();  // which names it, and does not wait
  ready_.clear();
  const int64_t due = step_ < stale_.pipelined_steps ? step_ - stale_.delay : step_;
  for (; due_ <= due; ++due_) {
    GradientReducer& reducer = of_step(due_);
    MILLRACE_RETURN_IF_ERROR(reducer.Finish());
    ready_.push_back(&reducer);
  }
  marked_.assign(marked_.size(), false);
  ++step_;
  return absl::OkStatus();
}

ReducerCounters StaleReducer::counters() const {
  ReducerCounters sum;
  for (const auto& slot : slots_) sum.AddSteps(slot->counters());
  for (const GradientReducer* const reducer : ready_) {
    sum.last_finish_seconds += reducer->counters().last_finish_seconds;
    sum.last_awaited = reducer->counters().last_awaited;
  }
  return sum;
}

}  // namespace millrace::collectives
