#include "collectives/nccl/session.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::collectives::nccl {
namespace {

using std::chrono::microseconds;

// The pause of a waiting thread between two polls: it yields at first, since most calls end within
// some ten microseconds, then sleeps. Every 50 ms the watch is to be asked.
class Pause {
 public:
  bool IsWatchTurn() {
    const auto now = std::chrono::steady_clock::now();
    if (now - watched_ < kLongestSleep) return false;
    watched_ = now;
    return true;
  }
  void Take() {
    if (++turns_ <= kYields) {
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(sleep_ * 2, microseconds(1000));
  }

 private:
  static constexpr int kYields = 200;
  int turns_ = 0;
  microseconds sleep_{20};
  std::chrono::steady_clock::time_point watched_ = std::chrono::steady_clock::now();
};

absl::Status Late(std::string_view call, const Deadline& deadline) {
  const double seconds = std::chrono::duration<double>(deadline.timeout()).count();
  return absl::DeadlineExceededError(absl::StrCat(ToAbsl(call), ": not done after ", seconds,
                                                  " s: a peer has stopped or makes another call"));
}

}  // namespace

Session::~Session() {
  const bool unwinding = std::uncaught_exceptions() > 0;
  {
    MutexLock lock(mu_);
    if (unwinding) (void)Fail(absl::CancelledError("an exception ends this rank"));
    if (failure_.ok()) ReleaseMemory();
  }
  Finalize();
  MutexLock lock(mu_);
  ReleaseMemory();
}

void Session::Finalize() {
  {
    MutexLock lock(mu_);
    if (comm_ == nullptr) return;
    const Result result = api_->comm_finalize(comm_);
    if (absl::Status status = ToStatus(*api_, result, comm_, "ncclCommFinalize"); !status.ok()) {
      (void)Fail(status);
      return;
    }
  }
  if (!WaitUntilReady("ncclCommFinalize", Deadline(end_timeout_)).ok()) return;
  MutexLock lock(mu_);
  if (comm_ != nullptr) (void)api_->comm_destroy(comm_);  // no caller is left to get an error
  comm_ = nullptr;
}

void Session::ReleaseMemory() {
  for (void* const handle : registrations_) {
    if (comm_ != nullptr) (void)api_->comm_deregister(comm_, handle);
  }
  registrations_.clear();
  if (comm_ != nullptr) return;  // NCCL wants memory freed after its last use, with no registration
  for (void* const memory : allocations_) {
    (void)queue_->OnDevice([&] { return ToStatus(*api_, api_->mem_free(memory), nullptr, ""); });
  }
  allocations_.clear();
}

absl::Status Session::Fail(const absl::Status& status) {
  if (!failure_.ok()) return failure_;
  failure_ = status;
  {
    const MutexLock lock(told_mu_);
    told_ = status;
  }
  if (comm_ == nullptr) return failure_;
  const absl::Status aborted = queue_->OnDevice([this]() MILLRACE_NO_THREAD_SAFETY_ANALYSIS {
    return ToStatus(*api_, api_->comm_abort(comm_), nullptr, "ncclCommAbort");
  });
  comm_ = nullptr;
  if (!aborted.ok()) {
    failure_ = absl::Status(failure_.code(),
                            absl::StrCat(failure_.message(), "; then ", aborted.message()));
  }
  return failure_;
}

absl::StatusOr<bool> Session::AskNccl(std::string_view call, const Deadline& deadline) {
  MILLRACE_RETURN_IF_ERROR(failure_);
  Result state = Result::kSuccess;
  Result result = api_->comm_get_async_error(comm_, &state);
  if (result == Result::kSuccess) result = state;
  const absl::Status status = ToStatus(*api_, result, comm_, call);
  if (status.ok()) return result == Result::kSuccess;
  const absl::Status lost = absl::IsUnavailable(status) ? deadline.Watch() : absl::OkStatus();
  return Fail(lost.ok() ? status : lost);
}

absl::Status Session::WaitUntilReady(std::string_view call, const Deadline& deadline) {
  for (Pause pause;; pause.Take()) {
    if (pause.IsWatchTurn()) MILLRACE_RETURN_IF_ERROR(AskWatch(deadline));
    MutexLock lock(mu_);
    MILLRACE_ASSIGN_OR_RETURN(const bool ready, AskNccl(call, deadline));
    if (ready) return absl::OkStatus();
    if (deadline.has_passed()) return Fail(Late(call, deadline));
  }
}

absl::Status Session::AskWatch(const Deadline& deadline) {
  const absl::Status status = deadline.Watch();
  if (status.ok()) return status;
  MutexLock lock(mu_);
  return Fail(status);
}

absl::Status Session::Call(const std::function<Result()>& call, Result* result) {
  return queue_->OnDevice([&] {
    *result = call();
    return absl::OkStatus();
  });
}

absl::Status Session::Connect(int rank, int size, const UniqueId& id, Config config,
                              const Deadline& deadline) {
  {
    MutexLock lock(mu_);
    MILLRACE_RETURN_IF_ERROR(failure_);
    Result result = Result::kSuccess;
    MILLRACE_RETURN_IF_ERROR(Call(
        [&]() MILLRACE_NO_THREAD_SAFETY_ANALYSIS {
          return api_->comm_init_rank_config(&comm_, size, id, rank, &config);
        },
        &result));
    absl::Status status = ToStatus(*api_, result, nullptr, "ncclCommInitRankConfig");
    if (status.ok() && comm_ == nullptr) {
      status = absl::InternalError("ncclCommInitRankConfig: no communicator");
    }
    if (!status.ok()) return Fail(status);
  }
  return WaitUntilReady("ncclCommInitRankConfig", deadline);
}

absl::StatusOr<std::shared_ptr<Session>> Session::Split(int color, int key, Config config,
                                                        std::unique_ptr<DeviceQueue> queue,
                                                        const Deadline& deadline) {
  auto child = std::make_shared<Session>(api_, std::move(queue));
  // NCCL writes into this from a thread of its own, until it is ready or aborted.
  const auto made = std::make_unique<Comm>(nullptr);
  MILLRACE_RETURN_IF_ERROR(Issue(
      "ncclCommSplit",
      [&](Comm comm, Stream) { return api_->comm_split(comm, color, key, made.get(), &config); },
      deadline));
  if (*made == nullptr) return absl::InternalError("ncclCommSplit: no communicator");
  {
    MutexLock lock(child->mu_);
    child->comm_ = *made;
  }
  MILLRACE_RETURN_IF_ERROR(child->WaitUntilReady("ncclCommSplit", deadline));
  return child;
}

absl::Status Session::Issue(std::string_view call, const std::function<Result(Comm, Stream)>& issue,
                            const Deadline& deadline) {
  {
    MutexLock lock(mu_);
    MILLRACE_RETURN_IF_ERROR(failure_);
    Result result = Result::kSuccess;
    MILLRACE_RETURN_IF_ERROR(
        Call([&]() MILLRACE_NO_THREAD_SAFETY_ANALYSIS { return issue(comm_, queue_->stream()); },
             &result));
    const absl::Status status = ToStatus(*api_, result, comm_, call);
    if (absl::IsInvalidArgument(status)) return status;
    if (!status.ok()) return Fail(status);
  }
  return WaitUntilReady(call, deadline);
}

absl::StatusOr<void*> Session::Record() {
  absl::StatusOr<void*> event = queue_->Record();
  if (event.ok()) return event;
  MutexLock lock(mu_);
  return Fail(event.status());
}

absl::StatusOr<bool> Session::Poll(std::string_view call, void* event, const Deadline& deadline) {
  MutexLock lock(mu_);
  MILLRACE_RETURN_IF_ERROR(failure_);
  // The device is asked first: kernels that NCCL stops for an error end like good ones, but only
  // after NCCL has reported the error.
  const absl::StatusOr<bool> passed = queue_->Query(event);
  MILLRACE_RETURN_IF_ERROR(AskNccl(call, deadline).status());
  if (!passed.ok()) return Fail(Annotate(passed.status(), call));
  if (!*passed && deadline.has_passed()) return Fail(Late(call, deadline));
  return *passed;
}

absl::Status Session::Wait(std::string_view call, void* event, const Deadline& deadline) {
  for (Pause pause;; pause.Take()) {
    const absl::StatusOr<bool> passed = Poll(call, event, deadline);
    if (!passed.ok()) {
      Drain(event);
      return passed.status();
    }
    if (*passed) return absl::OkStatus();
    if (pause.IsWatchTurn()) (void)AskWatch(deadline);  // the next poll returns its error
  }
}

// Bounded, for all events together: a lost device never finishes.
void Session::Drain(void* event) {
  const Deadline deadline(end_timeout_);
  for (Pause pause; !device_is_lost_; pause.Take()) {
    if (queue_->Query(event).value_or(true)) return;
    if (deadline.has_passed()) device_is_lost_ = true;
  }
}

absl::Status Session::Abort(const absl::Status& reason) {
  MutexLock lock(mu_);
  return Fail(reason);
}

absl::Status Session::failure() {
  const MutexLock lock(told_mu_);
  return told_;
}

absl::StatusOr<void*> Session::Allocate(size_t bytes) {
  if (!api_->can_register()) {
    return absl::UnimplementedError(
        absl::StrCat("NCCL ", VersionText(api_->version), " allocates no memory (2.19 does)"));
  }
  void* memory = nullptr;
  {
    MutexLock lock(mu_);
    MILLRACE_RETURN_IF_ERROR(failure_);
    Result result = Result::kSuccess;
    MILLRACE_RETURN_IF_ERROR(Call([&] { return api_->mem_alloc(&memory, bytes); }, &result));
    MILLRACE_RETURN_IF_ERROR(ToStatus(*api_, result, nullptr, "ncclMemAlloc"));
    allocations_.push_back(memory);
  }
  MILLRACE_RETURN_IF_ERROR(Register(memory, bytes));
  return memory;
}

absl::Status Session::Register(void* memory, size_t bytes) {
  if (!api_->can_register()) {
    return absl::UnimplementedError(
        absl::StrCat("NCCL ", VersionText(api_->version), " registers no memory (2.19 does)"));
  }
  MutexLock lock(mu_);
  MILLRACE_RETURN_IF_ERROR(failure_);
  void* handle = nullptr;
  Result result = Result::kSuccess;
  MILLRACE_RETURN_IF_ERROR(Call(
      [&]() MILLRACE_NO_THREAD_SAFETY_ANALYSIS {
        return api_->comm_register(comm_, memory, bytes, &handle);
      },
      &result));
  MILLRACE_RETURN_IF_ERROR(ToStatus(*api_, result, comm_, "ncclCommRegister"));
  registrations_.push_back(handle);
  return absl::OkStatus();
}

// Work on the stream may never end once the communicator has failed.
absl::Status Session::Copy(void* to, const void* from, size_t bytes) {
  {
    MutexLock lock(mu_);
    MILLRACE_RETURN_IF_ERROR(failure_);
  }
  return queue_->Copy(to, from, bytes);
}

}  // namespace millrace::collectives::nccl
