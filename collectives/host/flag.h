#ifndef MILLRACE_COLLECTIVES_HOST_FLAG_H_
#define MILLRACE_COLLECTIVES_HOST_FLAG_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"

namespace millrace::collectives {

// A counter that only grows, in memory that the ranks of a host share, on cache lines of its own
// (two: processors fetch neighbours in pairs). It wraps: counts are compared by their signed
// difference. All zeros is a valid state. One rank at a time raises it, any number wait.
struct alignas(128) SharedFlag {
  std::atomic<uint32_t> count;     // raiser -> waiters, release/acquire; the futex
  std::atomic<uint32_t> sleepers;  // waiters -> raiser, sequentially consistent: wake them if > 0
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Sets the counter. A thread that sees the new count also sees all that was written before.
// REQUIRES: one thread at a time, the owner's or one that does its work.
void Raise(SharedFlag& flag, uint32_t count);

// True if the counter has reached `count`.
bool HasReached(const SharedFlag& flag, uint32_t count);

// Lets all that sleep in AwaitFlag call `check` again.
void Wake(SharedFlag& flag);

using Deadline = std::chrono::steady_clock::time_point;
// Says what time it is; tests put a clock of their own in its place.
using ClockFunction = std::function<Deadline()>;

// `timeout` from `now` on; 0, or later than the clock can tell: never.
Deadline DeadlineAfter(std::chrono::nanoseconds timeout,
                       Deadline now = std::chrono::steady_clock::now());

// Waits until the counter has reached `count`: a short spin, then asleep, so that it works where
// ranks outnumber cores.
//   DEADLINE_EXCEEDED  the deadline has passed, by `clock`
//   other              what `check` says, which is asked at least each `longest_sleep`
constexpr std::chrono::milliseconds kLongestSleep{50};
absl::Status AwaitFlag(SharedFlag& flag, uint32_t count, Deadline deadline,
                       const std::function<absl::Status()>& check,
                       std::chrono::nanoseconds longest_sleep = kLongestSleep,
                       const ClockFunction& clock = &std::chrono::steady_clock::now);

// AwaitFlag without a deadline, for a rank that is in no hurry. It is not woken, which would cost
// the one that raises the flag a system call, but looks by itself (NextDoze).
absl::Status DozeUntil(SharedFlag& flag, uint32_t count, std::chrono::nanoseconds expected,
                       const std::function<absl::Status()>& check);

// How long to sleep before the next look, `elapsed` after the first one, where the last wait took
// `expected`: 50 ms during most of that time, then half a millisecond. Nothing from a second after
// `expected` on: then it is better to be woken.
std::optional<std::chrono::nanoseconds> NextDoze(std::chrono::nanoseconds elapsed,
                                                 std::chrono::nanoseconds expected);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_HOST_FLAG_H_
