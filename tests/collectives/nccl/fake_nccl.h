#ifndef MILLRACE_TESTS_COLLECTIVES_NCCL_FAKE_NCCL_H_
#define MILLRACE_TESTS_COLLECTIVES_NCCL_FAKE_NCCL_H_

#include <atomic>
#include <functional>

#include "base/mutex.h"
#include "collectives/nccl/types.h"

namespace millrace::collectives {

// What a test tells the fake NCCL, and learns of it. One per loaded library; the test writes
// between runs, ranks read and count while they run.
struct FakeNcclControl {
  // How often a call that was taken is still reported as in progress.
  std::atomic<int> polls = 2;
  // A communicator's first call is in progress until all ranks have made it.
  std::atomic<bool> connects_by_calls = false;
  // Nobody is ever connected.
  std::atomic<bool> init_hangs = false;
  // This rank fails to connect.
  std::atomic<int> init_fails_on = -1;
  // The next operation of this rank never ends, and reports `failure` as its asynchronous error.
  std::atomic<int> fails_on = -1;
  std::atomic<nccl::Result> failure = nccl::Result::kSystemError;
  // Asked by the number of a rank's operation in its communicator and those that are split from it,
  // from 0; empty: all succeed.
  // On the thread that calls: what is not kSuccess is what the call returns, and there is no
  // operation.
  std::function<nccl::Result(int rank, int operation)> on_call;
  // On the stream, as the operation comes to its head: what is not kSuccess is its asynchronous
  // error, and it never ends.
  std::function<nccl::Result(int rank, int operation)> on_begin;
  // The last element of this rank's float32 results is wrong, but for messages.
  std::atomic<int> spoils_on = -1;
  // Ranks hear of a peer's abort, as over a network (as over NVLink they do not).
  std::atomic<bool> peers_notice = true;
  // What the communicator that was made last is bound to.
  std::atomic<int> min_ctas = 0;
  std::atomic<int> max_ctas = 0;
  std::atomic<int> live = 0;  // communicators
  std::atomic<int> aborted = 0;
  std::atomic<int> destroyed = 0;
  std::atomic<int> allocations = 0;
  std::atomic<int> registrations = 0;
  std::atomic<int> made_ops = 0;
  // Calls that NCCL forbids: into a communicator that is in progress, registrations left over.
  std::atomic<int> misuses = 0;

  // Operations that come to the head of their streams stay there until Release.
  void Hold() {
    MutexLock lock(mu_);
    held_ = true;
  }
  void Release() {
    MutexLock lock(mu_);
    held_ = false;
    changed_.NotifyAll();
  }
  // Until an operation stays there.
  void AwaitHeld() {
    MutexLock lock(mu_);
    while (waiting_ == 0) changed_.Wait(mu_);
  }
  void WaitWhileHeld() {
    MutexLock lock(mu_);
    if (!held_) return;
    ++waiting_;
    changed_.NotifyAll();
    while (held_) changed_.Wait(mu_);
    --waiting_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool held_ MILLRACE_GUARDED_BY(mu_) = false;
  int waiting_ MILLRACE_GUARDED_BY(mu_) = 0;
};

using GetFakeNcclControl = FakeNcclControl*();
inline constexpr char kGetFakeNcclControl[] = "millrace_fake_nccl_control";

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_NCCL_FAKE_NCCL_H_
