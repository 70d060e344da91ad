#ifndef MILLRACE_COLLECTIVES_NCCL_SESSION_H_
#define MILLRACE_COLLECTIVES_NCCL_SESSION_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "collectives/communicator.h"
#include "collectives/cuda/queue.h"
#include "collectives/host/flag.h"
#include "collectives/nccl/api.h"

namespace millrace::collectives::nccl {

// The end of a wait whose peers do not come: the limits' timeout, counted from construction; 0:
// never.
class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds timeout) : Deadline(WaitLimits{timeout, nullptr}) {}
  explicit Deadline(WaitLimits limits)
      : limits_(std::move(limits)), end_(DeadlineAfter(limits_.timeout)) {}

  bool has_passed() const { return std::chrono::steady_clock::now() >= end_; }
  std::chrono::nanoseconds timeout() const { return limits_.timeout; }
  // The status of the limits' watch.
  absl::Status Watch() const { return limits_.watch ? limits_.watch() : absl::OkStatus(); }

 private:
  WaitLimits limits_;
  collectives::Deadline end_;
};

// One ncclComm_t, non-blocking, and the queue that its operations run on.
//
// NCCL allows only one thread at a time in a communicator, and ncclCommAbort only if no other
// thread is inside. Every call of NCCL returns at once here, so one mutex around each of them is
// enough: a waiting thread polls and releases the mutex in between, and an Abort from another
// thread takes its turn.
//
// The first failure (of NCCL, of the device, a deadline or its watch, an abort) aborts the
// communicator, and every later call returns it. Thread-safe.
class Session {
 public:
  // `end_timeout` limits the time to end a communicator without errors, and the kernels of an
  // aborted one.
  Session(std::shared_ptr<const Api> api, std::unique_ptr<DeviceQueue> queue,
          std::chrono::nanoseconds end_timeout = std::chrono::seconds(10))
      : api_(std::move(api)), queue_(std::move(queue)), end_timeout_(end_timeout) {}
  // Ends the communicator and waits up to 10 s for the peers; after a failure, or while an
  // exception unwinds, it aborts the communicator instead.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Api& api() const { return *api_; }
  DeviceQueue& queue() const { return *queue_; }

  // Joins the communicator of `id`. Called once, before all other methods.
  absl::Status Connect(int rank, int size, const UniqueId& id, Config config,
                       const Deadline& deadline);
  // A session of the communicator that ncclCommSplit makes, on `queue`. Collective.
  absl::StatusOr<std::shared_ptr<Session>> Split(int color, int key, Config config,
                                                 std::unique_ptr<DeviceQueue> queue,
                                                 const Deadline& deadline);

  // Calls `issue` on the device and waits until NCCL has put the work on the stream. Errors name
  // `call`. An invalid argument is no failure of the session.
  absl::Status Issue(std::string_view call, const std::function<Result(Comm, Stream)>& issue,
                     const Deadline& deadline);
  // An event after all work issued so far.
  absl::StatusOr<void*> Record();
  // True if `event` has passed.
  absl::StatusOr<bool> Poll(std::string_view call, void* event, const Deadline& deadline);
  // Asks the deadline's watch; an error fails the session and is returned.
  absl::Status AskWatch(const Deadline& deadline);
  // Waits until `event` has passed; after a failure, until the device no longer uses the memory.
  absl::Status Wait(std::string_view call, void* event, const Deadline& deadline);
  void Release(void* event) { queue_->Release(event); }

  // Fails the session with `reason` unless it has failed already. Returns the failure.
  absl::Status Abort(const absl::Status& reason);
  // The session's failure, or OK. Does not wait for NCCL, which may be about to abort.
  absl::Status failure();

  // See NcclCommunicator.
  absl::StatusOr<void*> Allocate(size_t bytes);
  absl::Status Register(void* memory, size_t bytes);
  absl::Status Copy(void* to, const void* from, size_t bytes);

 private:
  // Aborts the communicator; `status` is the failure from now on. Returns the failure.
  absl::Status Fail(const absl::Status& status) MILLRACE_REQUIRES(mu_);
  // The session's failure, or one that NCCL reports; else true if NCCL has completed its last call.
  // If NCCL misses a peer, the deadline's watch is asked for its name.
  absl::StatusOr<bool> AskNccl(std::string_view call, const Deadline& deadline)
      MILLRACE_REQUIRES(mu_);
  absl::Status WaitUntilReady(std::string_view call, const Deadline& deadline);
  // Calls NCCL on the device. Does not judge the result.
  absl::Status Call(const std::function<Result()>& call, Result* result);
  void Drain(void* event);
  void Finalize();
  void ReleaseMemory() MILLRACE_REQUIRES(mu_);

  const std::shared_ptr<const Api> api_;
  const std::unique_ptr<DeviceQueue> queue_;

  const std::chrono::nanoseconds end_timeout_;
  // True if a wait for the device has taken too long: no thread waits for it again. Any thread ->
  // any thread.
  std::atomic<bool> device_is_lost_{false};

  Mutex told_mu_;
  absl::Status told_ MILLRACE_GUARDED_BY(told_mu_);  // the failure, once there is one

  Mutex mu_;
  // Written by NCCL until the communicator is connected; null before and after.
  Comm comm_ MILLRACE_GUARDED_BY(mu_) = nullptr;
  absl::Status failure_ MILLRACE_GUARDED_BY(mu_);
  std::vector<void*> registrations_ MILLRACE_GUARDED_BY(mu_);  // handles
  std::vector<void*> allocations_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace millrace::collectives::nccl

#endif  // MILLRACE_COLLECTIVES_NCCL_SESSION_H_
