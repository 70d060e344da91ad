#ifndef MILLRACE_BENCH_OTHER_CORES_H_
#define MILLRACE_BENCH_OTHER_CORES_H_

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <thread>
#include <vector>

namespace millrace {

// Additions that depend on each other.
inline void DoAdditions(double count) {
  volatile double sink = 0;
  double sum = sink;
  for (auto left = static_cast<int64_t>(count); left > 0; --left) sum += 1e-9;
  sink = sum;
}

// Threads that compute while they are told to: a rank's other cores in a backward.
class OtherCores {
 public:
  explicit OtherCores(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          compute_.wait(false);
          DoAdditions(1e4);
        }
      });
    }
  }
  ~OtherCores() {
    for (std::jthread& thread : threads_) thread.request_stop();
    Compute(true);
  }
  OtherCores(const OtherCores&) = delete;
  OtherCores& operator=(const OtherCores&) = delete;

  void Compute(bool on) {
    compute_ = on;
    if (on) compute_.notify_all();
  }

 private:
  std::atomic<bool> compute_ = false;  // the rank's thread -> these
  std::vector<std::jthread> threads_;
};

}  // namespace millrace

#endif  // MILLRACE_BENCH_OTHER_CORES_H_
