#include <algorithm>
#include <atomic>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/caught.h"
#include "base/workers.h"
#include "readers/file/read_watch.h"
#include "readers/open_file.h"
#include "readers/read_engine.h"

// The I/O threads take whole groups from one queue and read a group's requests one after the other:
// a group is one run's worth of bytes, and many groups are in flight. On destruction every queued
// group still gets its `done`, with CANCELLED, so that threads that wait for it are released.
//
// The submitter copies bytes that lie in the page cache: for a run of small records waking an I/O
// thread, and it waking a worker, costs as much as the run's whole work. The first read that would
// have to wait for a device goes to the I/O threads, with all after it.

namespace millrace::readers {
namespace {

class PreadEngine : public IoEngine {
 public:
  //   throws std::system_error  the system gives no thread
  PreadEngine(int num_threads, ReadWatchOptions watch)
      : watch_(std::move(watch)), threads_(num_threads, /*batch_priority=*/false) {}
  // Queued groups are done after this, by threads_'s destructor.
  ~PreadEngine() override { stopping_.store(true, std::memory_order_relaxed); }

  void Submit(std::vector<ReadRequest> requests,
              std::function<void(std::vector<absl::Status>)> done) override {
    // Here, where a caller can be told that there is no memory.
    std::vector<absl::Status> statuses(requests.size());
    size_t num_read = 0;
    while (num_read < requests.size() &&
           requests[num_read].file->TryReadAt(requests[num_read].offset, requests[num_read].out)) {
      ++num_read;
    }
    if (num_read == requests.size()) {
      requests.clear();
      return done(std::move(statuses));
    }
    threads_.Enqueue([this, group = Group{std::move(requests), std::move(statuses), num_read,
                                          std::move(done)}]() mutable { Run(group); });
  }

 private:
  struct Group {
    std::vector<ReadRequest> requests;
    std::vector<absl::Status> statuses;  // of each request
    size_t num_read = 0;                 // requests that the submitter has read
    std::function<void(std::vector<absl::Status>)> done;
  };

  void Run(Group& group) {
    for (size_t i = group.num_read; i < group.requests.size(); ++i) {
      group.statuses[i] = stopping_.load(std::memory_order_relaxed)
                              ? absl::CancelledError("the I/O engine is shutting down")
                              : Caught([&] { return Read(group.requests[i]); });
    }
    group.requests.clear();
    group.done(std::move(group.statuses));
  }

  absl::Status Read(const ReadRequest& request) {
    const ReadWatch::Place read = watch_.Begin(request, ReadWatch::Clock::now());
    absl::Status status = ReadFully(*request.file, request.offset, request.out);
    watch_.End(read, ReadWatch::Clock::now());
    return status;
  }

  // destructor -> I/O threads; relaxed: between two reads late is soon enough
  std::atomic<bool> stopping_{false};
  ReadWatch watch_;
  Workers threads_;  // last, as its tasks use the rest
};

}  // namespace

absl::StatusOr<std::shared_ptr<IoEngine>> MakePreadEngine(int threads, ReadWatchOptions watch) {
  try {
    return std::make_shared<PreadEngine>(std::max(threads, 1), std::move(watch));
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the system has no thread to give for reading");
  }
}

}  // namespace millrace::readers
