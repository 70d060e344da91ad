#include "collectives/host/flag.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#include "base/status.h"

namespace millrace::collectives {
namespace {

constexpr int kSpins = 400;  // about what a peer on another core needs to come
constexpr std::chrono::microseconds kNap{500};
constexpr std::chrono::seconds kLongestDoze{1};

// Not FUTEX_PRIVATE_FLAG: the waiters are other processes with mappings of their own.
long Futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

bool IsAtLeast(uint32_t count, uint32_t wanted) {
  return static_cast<int32_t>(count - wanted) >= 0;
}

// Waits until the counter changes from its present value and the thread that changes it wakes this
// one, or for `limit`.
void WaitForChange(SharedFlag& flag, uint32_t wanted, std::chrono::nanoseconds limit) {
  const uint32_t seen = flag.count.load(std::memory_order_seq_cst);
  if (IsAtLeast(seen, wanted)) return;
  const timespec timeout{static_cast<time_t>(limit.count() / 1'000'000'000),
                         static_cast<long>(limit.count() % 1'000'000'000)};
  Futex(flag.count, FUTEX_WAIT, seen, &timeout);  // however it ends, the counter is read again
}

// Waits in the same way, and sees to it that it is woken.
void Sleep(SharedFlag& flag, uint32_t wanted, std::chrono::nanoseconds limit) {
  flag.sleepers.fetch_add(1, std::memory_order_seq_cst);
  WaitForChange(flag, wanted, limit);
  flag.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace

void Raise(SharedFlag& flag, uint32_t count) {
  flag.count.store(count, std::memory_order_seq_cst);
  if (flag.sleepers.load(std::memory_order_seq_cst) != 0) Wake(flag);
}

bool HasReached(const SharedFlag& flag, uint32_t count) {
  return IsAtLeast(flag.count.load(std::memory_order_acquire), count);
}

void Wake(SharedFlag& flag) { Futex(flag.count, FUTEX_WAKE, INT_MAX, nullptr); }

Deadline DeadlineAfter(std::chrono::nanoseconds timeout, Deadline now) {
  const bool ends = timeout.count() > 0 && timeout < Deadline::max() - now;  // else it overflows
  return ends ? now + timeout : Deadline::max();
}

absl::Status AwaitFlag(SharedFlag& flag, uint32_t count, Deadline deadline,
                       const std::function<absl::Status()>& check,
                       std::chrono::nanoseconds longest_sleep, const ClockFunction& clock) {
  for (int i = 0; i < kSpins; ++i) {
    if (HasReached(flag, count)) return absl::OkStatus();
    Pause();
  }
  while (!HasReached(flag, count)) {
    MILLRACE_RETURN_IF_ERROR(check());
    const Deadline now = clock();
    if (now >= deadline) {  // it may have been raised since, while this thread had no core
      return HasReached(flag, count) ? absl::OkStatus()
                                     : absl::DeadlineExceededError("the timeout has passed");
    }
    Sleep(flag, count, std::min<std::chrono::nanoseconds>(longest_sleep, deadline - now));
  }
  return absl::OkStatus();
}

std::optional<std::chrono::nanoseconds> NextDoze(std::chrono::nanoseconds elapsed,
                                                 std::chrono::nanoseconds expected) {
  if (elapsed >= expected + kLongestDoze) return std::nullopt;
  return std::clamp<std::chrono::nanoseconds>(expected / 8 * 7 - elapsed, kNap, kLongestSleep);
}

absl::Status DozeUntil(SharedFlag& flag, uint32_t count, std::chrono::nanoseconds expected,
                       const std::function<absl::Status()>& check) {
  const Deadline start = std::chrono::steady_clock::now();
  auto doze = NextDoze(std::chrono::nanoseconds(0), expected);
  while (!HasReached(flag, count) && doze.has_value()) {
    MILLRACE_RETURN_IF_ERROR(check());
    WaitForChange(flag, count, *doze);
    doze = NextDoze(std::chrono::steady_clock::now() - start, expected);
  }
  return AwaitFlag(flag, count, Deadline::max(), check);
}

}  // namespace millrace::collectives
