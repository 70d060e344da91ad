#ifndef MILLRACE_TRAINER_COMPUTE_THREADS_H_
#define MILLRACE_TRAINER_COMPUTE_THREADS_H_

#include <atomic>
#include <cstdint>
#include <utility>

// oneDNN's threads are libgomp's, whose entries are declared here: the header belongs to the
// compiler, and not every compiler's OpenMP is libgomp.
extern "C" {
void omp_set_num_threads(int threads);  // for the calling thread
int omp_get_thread_num(void);
int omp_get_num_threads(void);
void GOMP_parallel(void (*function)(void* data), void* data, unsigned threads, unsigned flags);
}

namespace millrace::trainer {

// Calls `body(thread, of)` on `threads` of oneDNN's threads, or on fewer, and waits for them.
// `body` may throw nothing.
template <typename Body>
void RunOnThreads(int threads, const Body& body) {
  // libgomp orders memory; the counters say so to a sanitizer, which does not see into it.
  struct Call {
    const Body& body;
    std::atomic<int> begun{0};
    std::atomic<int> done{0};
  } call{body};
  call.begun.store(1, std::memory_order_release);
  const auto run = [](void* data) {
    Call& mine = *static_cast<Call*>(data);
    (void)mine.begun.load(std::memory_order_acquire);
    mine.body(omp_get_thread_num(), omp_get_num_threads());
    mine.done.fetch_add(1, std::memory_order_release);
  };
  GOMP_parallel(run, &call, static_cast<unsigned>(threads), 0);
  (void)call.done.load(std::memory_order_acquire);
}

// Part `i` of `of` of [0, count).
inline std::pair<int64_t, int64_t> PartOf(int64_t count, int64_t i, int64_t of) {
  return {count * i / of, count * (i + 1) / of};
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_COMPUTE_THREADS_H_
