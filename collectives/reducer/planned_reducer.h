#ifndef MILLRACE_COLLECTIVES_REDUCER_PLANNED_REDUCER_H_
#define MILLRACE_COLLECTIVES_REDUCER_PLANNED_REDUCER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "collectives/gradient_reducer.h"
#include "collectives/reducer/bucket_plan.h"
#include "collectives/reducer/device_memory.h"
#include "collectives/reducer/host_links.h"
#include "collectives/reducer/private_options.h"
#include "collectives/reducer/progress_policy.h"
#include "collectives/reducer/reduction_engine.h"
#include "collectives/reducer/team_member.h"
#include "collectives/reducer/user_buffers.h"

namespace millrace::collectives {

// The reducer of a plan that all ranks have agreed on.
class PlannedReducer final : public GradientReducer, private TeamMember {
 public:
  // `rank`: this rank of the communicator; `timeout`: the limit of each wait. One of `links` and
  // `device` is null: that of the side, host or device, that does not sum.
  PlannedReducer(std::vector<GradientSpec> gradients, BucketPlan plan, uint64_t hash,
                 const PrivateReducerOptions& options, std::unique_ptr<HostLinks> links, int rank,
                 const std::optional<std::vector<TensorView>>& memory,
                 std::unique_ptr<DeviceMemory> device, std::chrono::nanoseconds timeout);
  ~PlannedReducer() override;

  // Makes the connections that a first step would make. Collective; called once, before all else.
  absl::Status Connect() { return Failed(engine_->Connect()); }
  void Leave(const absl::Status& why) override;
  TensorView gradient(size_t i) override {
    if (memory_ != nullptr) return memory_->view(i);
    std::byte* const buckets = device_ != nullptr ? device_->buckets() : copy();
    return {buckets + plan_.offsets[i], gradients_[i].dtype, gradients_[i].shape};
  }
  void SetRows(int64_t rows) override { rows_ = rows; }
  absl::Status MarkReady(size_t i) override;
  absl::Status Finish() override;
  const StepOutcome& outcome() const override { return outcome_; }
  const std::vector<GradientShard>& shards() const override { return shards_; }
  absl::Status GatherShards() override;
  size_t num_buckets() const override { return plan_.buckets.size(); }
  size_t bucket_of(size_t i) const override { return plan_.bucket_of[i]; }
  const ReducerCounters& counters() const override { return counters_; }
  std::string Summary() const override;

 private:
  std::unique_ptr<ReductionEngine> MakeEngine(std::chrono::nanoseconds timeout);
  ChosenPolicy MakePolicy() const;
  // The host's buckets.
  std::byte* copy() const { return links_->host->copy(links_->host->rank()); }
  bool has_several_hosts() const { return links_ != nullptr && links_->groups.num_hosts() > 1; }
  // True if the caller's gradients are copied to buckets of the host and back.
  bool is_staged() const { return memory_ != nullptr && has_several_hosts(); }
  void FindShards();
  void CopyShardsIn();
  void CopyShardsOut();
  void StartThread();
  void RunThread();
  // The reason why no peer need be waited for any longer. Lets the team go on.
  absl::Status Stopped();
  absl::Status ThreadFailure();
  void WatchExchanges();
  // The status that the other ranks are told when this rank takes part in nothing more: `why` where
  // it names the lost rank; else that this rank is lost, at `place`, and `what` it has done.
  absl::Status Departure(PeerLost place, std::string_view what, const absl::Status& why) const;
  PeerLost CallersPlace() const;
  bool IsBetweenSteps() const;
  // Leaves the groups of this rank, so that nobody waits for it; a thread does it at its end, and
  // has ended then. Called by the caller's thread. `quiet`: between two steps.
  void GiveUp(const absl::Status& departure, bool quiet);
  // Fails this and every later call with `status` unless that is OK; the thread has ended then.
  // Called by the caller's thread.
  absl::Status Failed(const absl::Status& status);
  bool GoesOnForOthers() const { return on_caller() && has_others(); }
  bool on_caller() const { return std::this_thread::get_id() != thread_.get_id(); }
  void Advance() override {
    if (failed_.ok()) Failed(Poll(/*counts=*/false)).IgnoreError();
  }
  // `counts`: true if the time is the step's cost; else it lies within another call that counts it.
  absl::Status Poll(bool counts) {
    return thread_.joinable() ? ThreadFailure() : engine_->Poll(counts);
  }
  absl::Status CheckMark(size_t i) const;
  bool is_last_micro_batch() const { return micro_batch_ + 1 == options_.micro_batches; }
  void StartMicroBatch();
  void EndMicroBatch();
  // Tells the peers of the buckets that are full, as far as all before them are.
  absl::Status Publish();
  absl::Status EndStep();
  void ReadOutcome();

  // Constant after construction.
  const int rank_;
  const std::vector<GradientSpec> gradients_;
  const BucketPlan plan_;
  const uint64_t hash_;
  const PrivateReducerOptions options_;
  const std::unique_ptr<DeviceMemory> device_;
  const std::unique_ptr<HostLinks> links_;
  ChosenPolicy policy_;
  std::vector<GradientShard> shards_;
  std::unique_ptr<UserBuffers> memory_;  // null: gradients are in buckets

  // The members from here to the engine stand before it, since its exchanges look at them to their
  // end.

  // True if the thread and the exchanges are to end. Caller -> these, release/acquire.
  std::atomic<bool> stopping_ = false;
  // True if the thread has ended: spares each MarkReady the mutex. Thread -> caller,
  // release/acquire.
  std::atomic<bool> thread_ended_ = false;
  Mutex mu_;
  absl::Status departure_ MILLRACE_GUARDED_BY(mu_);      // written before `stopping_`
  bool quiet_ MILLRACE_GUARDED_BY(mu_) = false;          // true if it leaves between two steps
  absl::Status thread_failed_ MILLRACE_GUARDED_BY(mu_);  // written before `thread_ended_`
  // Used by the thread if there is one, unless a member says otherwise.
  std::unique_ptr<ReductionEngine> engine_;

  // The running step; owned by the caller's thread.
  int micro_batch_ = 0;
  std::vector<bool> ready_;      // by gradient: true if it is ready
  std::vector<size_t> missing_;  // by bucket: gradients that are not ready
  size_t published_ = 0;         // the buckets published
  uint32_t base_ = 0;            // buckets of all steps before
  int64_t step_;                 // the number of the step in messages
  std::optional<int64_t> rows_;  // the rows of the micro-batch
  int64_t step_rows_ = 0;
  uint32_t gathers_ = 0;
  StepOutcome outcome_;
  ReducerCounters counters_;
  absl::Status failed_;  // a failed reduction: half of the sums are lost, so no later call succeeds

  std::thread thread_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_PLANNED_REDUCER_H_
