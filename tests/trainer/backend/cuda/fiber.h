#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_FIBER_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_FIBER_H_

#include <cstddef>
#include <memory>

namespace millrace::trainer::cuda::simt {

// A stack on which a function runs beside the thread that made it, turn by turn. Thread-compatible:
// always on one thread. A fiber may end in the midst of its function, whose objects then are not
// destroyed.
class Fiber {
 public:
  // `body` is called at the first Resume, and must not return.
  explicit Fiber(void (*body)());
  ~Fiber();
  Fiber(Fiber&&) noexcept;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the fiber until it calls Pause. REQUIRES: no fiber of this thread runs.
  void Resume();
  // Goes back to the caller of Resume. REQUIRES: a fiber of this thread runs.
  static void Pause();

 private:
  struct State;
  static thread_local constinit State* running_;  // the fiber that runs on this thread
  std::unique_ptr<State> state_;
};

}  // namespace millrace::trainer::cuda::simt

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_FIBER_H_
