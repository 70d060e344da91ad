#include "python/call/lock.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace millrace::python {
namespace {

// True from the interpreter's end on, which this thread has said.
std::atomic<bool> is_ended = false;
std::thread::id ending_thread;
// The threads that are asking for the lock.
std::atomic<int> asking = 0;

// Returns false if the interpreter has ended for this thread. Otherwise it counts as asking.
bool BeginToAsk() {
  ++asking;
  if (!IsOver()) return true;
  --asking;
  return false;
}

[[noreturn]] void StayAway() {
  for (;;) pause();
}

// The state that the interpreter has made for this thread; it stays until the thread ends.
class KeptState {
 public:
  KeptState() = default;
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;
  ~KeptState() {
    if (!is_kept_ || !BeginToAsk()) return;
    PyGILState_Ensure();
    --asking;
    PyGILState_Release(PyGILState_LOCKED);
    PyGILState_Release(PyGILState_UNLOCKED);  // Keep's
  }

  // REQUIRES: the lock is held.
  void Keep() {
    PyGILState_Ensure();
    is_kept_ = true;
  }

 private:
  bool is_kept_ = false;
};
thread_local KeptState kept_state;

}  // namespace

bool IsOver() { return is_ended && std::this_thread::get_id() != ending_thread; }

Unlocked::~Unlocked() {
  if (!BeginToAsk()) StayAway();
  PyEval_RestoreThread(state_);
  --asking;
}

Locked::Locked() {
  if (!BeginToAsk()) return;
  state_ = PyGILState_Ensure();
  --asking;
  held_ = true;
}

LockedAgain::LockedAgain() : is_new_(PyGILState_GetThisThreadState() == nullptr) {
  if (is_new_ && locked_) kept_state.Keep();
}

void EndInterpreter() {
  ending_thread = std::this_thread::get_id();
  is_ended = true;
  PyThreadState* const state = PyEval_SaveThread();
  while (asking != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(state);
}

}  // namespace millrace::python
