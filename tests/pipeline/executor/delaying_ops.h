#ifndef MILLRACE_TESTS_PIPELINE_EXECUTOR_DELAYING_OPS_H_
#define MILLRACE_TESTS_PIPELINE_EXECUTOR_DELAYING_OPS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "base/context.h"
#include "base/op.h"
#include "base/philox.h"
#include "pipeline/plan/physical.h"
#include "tests/pipeline/executor/fake_source.h"

// Random delays for ops and reads, so that a test sees orders of events which a quiet machine never
// shows. Nobody sleeps: a delay spins until others have come to delays of their own so many times,
// or, when nobody else is at work, often enough; a few give the core away first. (All of them doing
// that costs a time slice each on a busy machine, and minutes in all.) A seed names the delays of a
// run; the threads' part in the order is the machine's.

namespace millrace::pipeline {

// Thread-safe.
class Delays {
 public:
  explicit Delays(uint64_t seed) : seed_(seed) {}

  // A delay named by `what` and how many there were before: none in half of all cases, mostly
  // short, now and then longer than many others together.
  void Delay(uint64_t what) {
    const uint64_t count = count_.fetch_add(1, std::memory_order_relaxed);
    const uint64_t word = Mix64(seed_ ^ Mix64(what + count));
    if (word % 2 == 0) return;
    if (word % 64 == 1) std::this_thread::yield();
    const uint64_t others = word % 64 == 1 ? 1 + (word >> 8) % 100 : 1 + (word >> 8) % 5;
    for (uint64_t i = 0; i < 200 * others && this->count() < count + 1 + others; ++i) {
    }
  }
  // A number below `limit` > 0, named by `what`.
  uint64_t Pick(uint64_t what, uint64_t limit) {
    const uint64_t count = count_.fetch_add(1, std::memory_order_relaxed);
    return Mix64(seed_ + Mix64(what ^ (count << 20))) % limit;
  }
  // How many delays and picks there were.
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  const uint64_t seed_;
  std::atomic<uint64_t> count_{0};  // any thread -> any thread, relaxed: a number, not a signal
};

// What `inner` does, with a delay before and after each run.
class DelayingOp final : public Op {
 public:
  DelayingOp(std::unique_ptr<Op> inner, std::shared_ptr<Delays> delays)
      : inner_(std::move(inner)), delays_(std::move(delays)) {}
  absl::StatusOr<Schema> Resolve(const Schema& input) override { return inner_->Resolve(input); }
  void Apply(Run& run) const override {
    const uint64_t what = run.num_rows() > 0 ? run.id(0).record : 0;
    delays_->Delay(what);
    inner_->Apply(run);
    delays_->Delay(~what);
  }
  int64_t preferred_rows() const override { return inner_->preferred_rows(); }

 private:
  const std::unique_ptr<Op> inner_;
  const std::shared_ptr<Delays> delays_;
};

// Every op of `plan`, pass 1's too, delayed.
inline PhysicalPlan WithDelays(PhysicalPlan plan, const std::shared_ptr<Delays>& delays) {
  const auto wrap = [&](PhysicalOp& op) {
    if (op.op != nullptr) op.op = std::make_unique<DelayingOp>(std::move(op.op), delays);
  };
  for (PhysicalOp& op : plan.ops) wrap(op);
  if (plan.cut.has_value()) {
    for (ExamineStep& step : plan.cut->examine) wrap(step.op);
  }
  return plan;
}

// Reads groups in random order on `num_threads` threads, each read and each answer delayed.
class DelayingIo final : public ThreadedIo {
 public:
  explicit DelayingIo(const std::shared_ptr<Delays>& delays, int num_threads = 3)
      : ThreadedIo(
            num_threads,
            {.pick = [delays](size_t num_groups) { return delays->Pick(1, num_groups); },
             .before_read = [delays](const ReadRequest& request) { delays->Delay(request.offset); },
             .before_done = [delays] { delays->Delay(2); }}) {}
};

inline std::shared_ptr<Context> DelayingContext(int threads, const std::shared_ptr<Delays>& delays,
                                                int64_t budget = int64_t{1} << 30) {
  ContextOptions options;
  options.threads = threads;
  options.memory_budget_bytes = budget;
  options.io = std::make_shared<DelayingIo>(delays);
  return *Context::Make(std::move(options));
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_EXECUTOR_DELAYING_OPS_H_
