#include "python/call/interruptible.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "python/call/error.h"
#include "python/call/lock.h"

namespace millrace::python {
namespace {

// Work in a thread of its own.
class Background {
 public:
  // Throws std::system_error if the system gives no thread.
  explicit Background(const std::function<mr_error*()>& work)
      : thread_([this, &work] {
          mr_error* const error = work();
          const std::lock_guard<std::mutex> lock(mutex_);
          error_ = error;
          has_ended_ = true;
          ended_.notify_one();
        }) {}

  // Returns true if the work has ended, for which it waits a while without the interpreter's lock.
  bool Await() {
    const Unlocked unlocked;
    std::unique_lock<std::mutex> lock(mutex_);
    return ended_.wait_for(lock, std::chrono::milliseconds(50), [this] { return has_ended_; });
  }

  mr_error* Join() {
    const Unlocked unlocked;
    thread_.join();
    return error_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  mr_error* error_ = nullptr;
  std::thread thread_;  // last, as it uses the rest
};

}  // namespace

Interruptible::Interruptible() { Check(mr_cancel_create(&cancel_)); }

mr_error* Interruptible::Run(const std::function<mr_error*()>& work) {
  std::optional<Background> background;
  try {
    background.emplace(work);
  } catch (const std::system_error&) {  // no thread: it cannot be interrupted
    const Unlocked unlocked;
    return work();
  }
  bool is_raised = false;
  while (!is_raised && !background->Await()) is_raised = PyErr_CheckSignals() != 0;
  if (!is_raised) return background->Join();
  PyObject* raised[3] = {};
  PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
  Cancel();
  mr_error_free(background->Join());
  PyErr_Restore(raised[0], raised[1], raised[2]);
  throw Raised();
}

}  // namespace millrace::python
