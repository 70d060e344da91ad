#ifndef MILLRACE_TESTS_COLLECTIVES_REDUCER_COUNTED_STEPS_H_
#define MILLRACE_TESTS_COLLECTIVES_REDUCER_COUNTED_STEPS_H_

// What a reducer counts of its steps, over every backend.

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/gradient_reducer.h"
#include "collectives/reducer/make_reducer.h"
#include "tests/collectives/reducer/awaited_bucket.h"
#include "tests/collectives/reducer/reducer_steps.h"

namespace millrace::collectives {

using Clock = std::chrono::steady_clock;

inline double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Every step adds the bytes of each bucket, and no more time than it took.
inline absl::Status CheckCounters(Communicator& comm, const PrivateReducerOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                            MakePlanned(comm, SomeGradients(), SmallBuckets(options)));
  const ReducerCounters& counters = reducer->counters();
  if (counters.steps != 0 || counters.total().bytes != 0) return Fail("before the first");
  const Clock::time_point start = Clock::now();
  for (int step = 0; step < 3; ++step) {
    MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, SomeGradients().size()));
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
  }
  const double took = SecondsSince(start);
  if (counters.steps != 3 || counters.buckets.size() != reducer->num_buckets()) {
    return Fail("steps or buckets");
  }
  std::vector<int64_t> bytes(reducer->num_buckets());
  for (size_t i = 0; i < SomeGradients().size(); ++i) {
    bytes[reducer->bucket_of(i)] += 3 * 4 * SomeGradients()[i].shape.num_elements();
  }
  for (size_t b = 0; b < bytes.size(); ++b) {
    // Each gradient begins at a multiple of 64 bytes.
    const int64_t padding = counters.buckets[b].bytes - bytes[b];
    if (padding < 0 || padding > 3 * 64 * 8) return Fail(absl::StrCat("bytes of bucket ", b));
  }
  const ReducerCounters::Bucket total = counters.total();
  if (total.exposed_seconds <= 0 || total.exposed_seconds > took) return Fail("exposed");
  // Where a host has more ranks than another, some of them sum nothing; its first always does.
  const bool sums = total.seconds > 0 || (total.seconds == 0 && comm.rank() > 0);
  return sums ? absl::OkStatus() : Fail("seconds");
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_REDUCER_COUNTED_STEPS_H_
