#ifndef MILLRACE_TESTS_COLLECTIVES_AWAIT_UNTIL_H_
#define MILLRACE_TESTS_COLLECTIVES_AWAIT_UNTIL_H_

#include <chrono>
#include <thread>

#include "absl/status/status.h"
#include "tests/collectives/test_buffer.h"

namespace millrace::collectives {

// Waits until what other ranks do makes `holds()` true. An error after a minute: they have failed,
// and will not do it.
template <typename Holds>
absl::Status AwaitUntil(const Holds& holds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > limit) return Fail("what is awaited does not come");
    std::this_thread::yield();
  }
  return absl::OkStatus();
}

// Lets the other threads run for a while, so that one that forgets to wait for this one is likely
// to be caught.
inline void Dawdle() {
  for (int i = 0; i < 2000; ++i) std::this_thread::yield();
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_AWAIT_UNTIL_H_
