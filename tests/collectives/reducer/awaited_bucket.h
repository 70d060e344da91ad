#ifndef MILLRACE_TESTS_COLLECTIVES_REDUCER_AWAITED_BUCKET_H_
#define MILLRACE_TESTS_COLLECTIVES_REDUCER_AWAITED_BUCKET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/status.h"
#include "collectives/gradient_reducer.h"
#include "collectives/progress.h"
#include "tests/collectives/await_until.h"

namespace millrace::collectives {

// Tells other threads in which bucket a rank awaits `rank`.
class AwaitedBucket : public Progress {
 public:
  explicit AwaitedBucket(int rank) : rank_(rank) {}
  void Enter(int64_t, int, Phase) override {}
  void Awaits(int64_t step, int bucket, int rank) override {
    if (rank == rank_) place_ = Place(step, bucket);
  }
  absl::Status Health() const override { return absl::OkStatus(); }

  // For the rank that is awaited.
  absl::Status AwaitIt(int step, int bucket) const {
    return AwaitUntil([&] { return place_ >= Place(step, bucket); });
  }
  // Fills each bucket once the other waits for it, and no sooner.
  absl::Status MarkLate(GradientReducer& reducer, size_t num_gradients, int step) const {
    for (size_t i = 0; i < num_gradients; ++i) {
      MILLRACE_RETURN_IF_ERROR(AwaitIt(step, static_cast<int>(reducer.bucket_of(i))));
      MILLRACE_RETURN_IF_ERROR(reducer.MarkReady(i));
    }
    return absl::OkStatus();
  }

 private:
  static int64_t Place(int64_t step, int bucket) { return step * 1000 + bucket; }

  const int rank_;
  std::atomic<int64_t> place_ = -1;
};

inline absl::Status MarkAll(GradientReducer& reducer, size_t num_gradients) {
  for (size_t i = 0; i < num_gradients; ++i) {
    const absl::Status marked = reducer.MarkReady(i);
    if (!marked.ok()) return marked;
  }
  return absl::OkStatus();
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_REDUCER_AWAITED_BUCKET_H_
