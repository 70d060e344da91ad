#include "readers/parallel/parallel.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/mutex.h"

// Under ThreadSanitizer this file alone is compiled without it, so that the templates of TBB are as
// blind to it as the library is; Handover tells it what TBB orders.
#ifdef MILLRACE_TSAN
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace millrace::readers {
namespace {

namespace tbb = ::oneapi::tbb;

// All that happens before Give happens before what follows a Take of another thread.
class Handover {
 public:
#ifdef MILLRACE_TSAN
  void Give() { __tsan_release(this); }
  void Take() { __tsan_acquire(this); }
#else
  void Give() {}
  void Take() {}
#endif
};

// True if the system has a thread to give. TBB throws where it cannot start one, perhaps with work
// under way, so this is tried first.
bool CanStartThread() {
  try {
    std::thread([] {}).join();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

// An arena of `threads` threads, the calling one among them. TBB starts no more workers than there
// are cores unless it is told to.
class Arena {
 public:
  explicit Arena(int threads) : arena_(threads) {
    if (threads <= tbb::info::default_concurrency()) return;
    workers_.emplace(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
  }

  // Returns what TBB threw, or OK.
  template <typename Body>
  absl::Status Execute(const Body& body) {
    try {
      arena_.execute(body);
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return absl::ResourceExhaustedError(absl::StrCat("parallel work: ", error.what()));
    }
  }

 private:
  std::optional<tbb::global_control> workers_;
  tbb::task_arena arena_;
};

// The indexes of one ParallelFor.
class Loop {
 public:
  Loop(size_t count, const std::function<absl::Status(size_t, size_t)>& body)
      : count_(count), body_(body) {}

  // Takes indexes until there is none left.
  void Run(size_t slot) {
    start_.Take();
    while (true) {
      const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) break;
      absl::Status status = Caught([&] { return body_(index, slot); });
      if (!status.ok()) Fail(index, std::move(status));
    }
    end_.Give();
  }

  absl::Status RunOn(int threads) {
    start_.Give();
    Arena arena(threads);
    const absl::Status status = arena.Execute([&] {
      tbb::task_group group;
      try {
        for (int slot = 1; slot < threads; ++slot) {
          group.run([this, slot] { Run(static_cast<size_t>(slot)); });
        }
      } catch (const std::exception&) {  // no more threads: those that run do the same more slowly
      }
      Run(0);
      group.wait();
    });
    end_.Take();
    return status.ok() ? std::move(status_) : status;
  }

  absl::Status RunAlone() {
    Run(0);
    return std::move(status_);
  }

 private:
  void Fail(size_t index, absl::Status status) {
    next_.store(count_, std::memory_order_relaxed);
    MutexLock lock(mu_);
    if (index >= failed_) return;
    failed_ = index;
    status_ = std::move(status);
  }

  const size_t count_;
  const std::function<absl::Status(size_t, size_t)>& body_;
  std::atomic<size_t> next_{0};  // among the threads; only its own value counts
  Handover start_;
  Handover end_;
  Mutex mu_;
  size_t failed_ = std::numeric_limits<size_t>::max();  // guarded by mu_ until the join
  absl::Status status_;                                 // the same
};

}  // namespace

absl::Status ParallelFor(size_t count, int threads,
                         const std::function<absl::Status(size_t index, size_t slot)>& body) {
  const auto useful = static_cast<int>(std::min<size_t>(count, std::max(threads, 1)));
  Loop loop(count, body);
  return useful > 1 && CanStartThread() ? loop.RunOn(useful) : loop.RunAlone();
}

}  // namespace millrace::readers
