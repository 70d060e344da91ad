#ifndef MILLRACE_COLLECTIVES_MESSAGES_TASK_H_
#define MILLRACE_COLLECTIVES_MESSAGES_TASK_H_

#include <coroutine>
#include <exception>
#include <utility>

#include "absl/status/status.h"

namespace millrace::collectives {

// A coroutine that ends with a status: an algorithm over messages, written as if it blocked.
// It does not run before it is awaited or resumed. It is destroyed with this object, wherever it is
// suspended. An exception (no memory) ends it with RESOURCE_EXHAUSTED: if the exception left the
// coroutine, clang 16 would destroy its locals twice.
class [[nodiscard]] Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  // Resumes the coroutine that awaited this one.
  struct Final {
    bool await_ready() noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle handle) noexcept {
      return handle.promise().awaiter;
    }
    void await_resume() noexcept {}
  };

  struct promise_type {
    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    Final final_suspend() noexcept { return {}; }
    void return_value(absl::Status status) { outcome = std::move(status); }
    void unhandled_exception() {
      try {
        throw;
      } catch (const std::exception& error) {
        outcome = absl::ResourceExhaustedError(error.what());
      }
    }

    absl::Status outcome;
    std::coroutine_handle<> awaiter = std::noop_coroutine();
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // Awaiting a task runs it to its end.
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) noexcept {
    handle_.promise().awaiter = awaiter;
    return handle_;
  }
  absl::Status await_resume() { return handle_.promise().outcome; }

  // For a caller that does not await it: runs it until it waits for the first time.
  void Begin() { handle_.resume(); }
  bool ended() const { return handle_.done(); }
  // Never destroys the coroutine: the network may still write to its memory.
  void LeaveMemory() { handle_ = {}; }
  // REQUIRES: ended().
  const absl::Status& outcome() const { return handle_.promise().outcome; }

 private:
  explicit Task(Handle handle) : handle_(handle) {}

  Handle handle_;
};

}  // namespace millrace::collectives

// Ends the enclosing coroutine if `expr` (an absl::Status, or a co_await of one) is not OK.
#define MILLRACE_CO_RETURN_IF_ERROR(expr)                   \
  do {                                                      \
    absl::Status millrace_status_ = (expr);                 \
    if (!millrace_status_.ok()) co_return millrace_status_; \
  } while (false)

#endif  // MILLRACE_COLLECTIVES_MESSAGES_TASK_H_
