#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "readers/local_file.h"
#include "readers/record_source.h"
#include "readers/start_threads_internal.h"

// The I/O threads take whole groups from one queue and read a group's requests one after the other:
// a group is one run's worth of bytes, and many groups are in flight. On destruction every queued
// group still gets its `done`, with CANCELLED, so that whoever waits for it is released.
//
// What lies in the page cache is copied by the submitter: for a run of small records waking an I/O
// thread, and it waking a worker, costs as much as the run's whole work. The first read that would
// have to wait for a device goes to the I/O threads, with all after it.

namespace millrace::readers {
namespace {

class PreadEngine : public IoEngine {
 public:
  explicit PreadEngine(size_t num_threads)
      : threads_(StartThreads(num_threads, [this] { Serve(); })) {}

  ~PreadEngine() override {
    {
      MutexLock lock(mu_);
      stopping_.store(true, std::memory_order_relaxed);
    }
    wake_.NotifyAll();
    for (std::jthread& thread : threads_) thread.join();
  }

  bool has_threads() const { return !threads_.empty(); }

  void Submit(std::vector<ReadRequest> requests,
              std::function<void(std::vector<absl::Status>)> done) override {
    size_t num_read = 0;
    while (num_read < requests.size() &&
           requests[num_read].file->TryReadAt(requests[num_read].offset, requests[num_read].out)) {
      ++num_read;
    }
    if (num_read == requests.size()) {
      requests.clear();
      return done(std::vector<absl::Status>(num_read));
    }
    {
      MutexLock lock(mu_);
      queue_.push_back({std::move(requests), num_read, std::move(done)});
    }
    wake_.NotifyOne();
  }

 private:
  struct Group {
    std::vector<ReadRequest> requests;
    size_t num_read = 0;  // of them, by the submitter
    std::function<void(std::vector<absl::Status>)> done;
  };

  void Serve() {
    while (true) {
      Group group;
      {
        MutexLock lock(mu_);
        while (queue_.empty() && !stopping_.load(std::memory_order_relaxed)) wake_.Wait(mu_);
        if (queue_.empty()) return;
        group = std::move(queue_.front());
        queue_.pop_front();
      }
      Run(group);
    }
  }

  void Run(Group& group) {
    std::vector<absl::Status> statuses(group.num_read);
    statuses.reserve(group.requests.size());
    for (const ReadRequest& request : std::span(group.requests).subspan(group.num_read)) {
      statuses.push_back(stopping_.load(std::memory_order_relaxed)
                             ? absl::CancelledError("the I/O engine is shutting down")
                             : ReadFully(*request.file, request.offset, request.out));
    }
    group.requests.clear();
    group.done(std::move(statuses));
  }

  Mutex mu_;
  CondVar wake_;
  std::deque<Group> queue_ MILLRACE_GUARDED_BY(mu_);
  // destructor -> I/O threads; relaxed: written under mu_, and between two reads late is soon
  // enough
  std::atomic<bool> stopping_{false};
  // Last, as they use the rest; constant between construction and destruction.
  std::vector<std::jthread> threads_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<IoEngine>> MakePreadEngine(int threads) {
  auto engine = std::make_shared<PreadEngine>(static_cast<size_t>(std::max(threads, 1)));
  if (!engine->has_threads()) {
    return absl::ResourceExhaustedError("the system has no thread to give for reading");
  }
  return engine;
}

}  // namespace millrace::readers
