#include "python/core/lock.h"

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

void EndInterpreter() {
  ending_thread = std::this_thread::get_id();
  is_ended = true;
  PyThreadState* const state = PyEval_SaveThread();
  while (asking != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(state);
}

}  // namespace millrace::python
