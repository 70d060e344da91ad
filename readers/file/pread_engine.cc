#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "base/caught.h"
#include "base/mutex.h"
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
//
// A file that starts reads itself (behind a URL) needs no thread: as many of its reads are under
// way as were submitted.

namespace millrace::readers {
namespace {

class PreadEngine : public IoEngine {
 public:
  //   throws std::system_error  the system gives no thread
  PreadEngine(int num_threads, ReadWatchOptions watch)
      : watch_(std::move(watch)), threads_(num_threads, /*batch_priority=*/false) {}
  // Queued groups are done after this, by threads_'s destructor.
  ~PreadEngine() override {
    stopping_.store(true, std::memory_order_relaxed);
    MutexLock lock(mu_);
    while (num_started_ > 0) all_ended_.Wait(mu_);
  }

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
    const auto group =
        std::make_shared<Group>(std::move(requests), std::move(statuses), std::move(done));
    group->waiting.reserve(group->requests.size() - num_read);
    // From here on a caller cannot be told: what has been started fills its bytes.
    for (size_t i = num_read; i < group->requests.size(); ++i) {
      if (!Start(group, i)) group->waiting.push_back(i);
    }
    if (group->waiting.empty()) return EndOne(*group);
    const absl::Status queued = Caught([&] { threads_.Enqueue([this, group] { Run(*group); }); });
    if (queued.ok()) return;
    for (const size_t i : group->waiting) group->statuses[i] = queued;
    EndOne(*group);
  }

 private:
  struct Group {
    Group(std::vector<ReadRequest> reads, std::vector<absl::Status> outcomes,
          std::function<void(std::vector<absl::Status>)> on_end)
        : requests(std::move(reads)), statuses(std::move(outcomes)), done(std::move(on_end)) {}

    std::vector<ReadRequest> requests;
    std::vector<absl::Status> statuses;  // the status of each request
    std::vector<size_t> waiting;         // the requests that an I/O thread reads
    std::function<void(std::vector<absl::Status>)> done;
    // Reads that files have started, and one for all others. Submitter, threads of files and an
    // I/O thread -> the last of them, acquire and release: it calls `done`.
    std::atomic<size_t> num_left{1};
  };

  // True if the file reads this request of the group by itself, or has no memory to begin. Such
  // reads are not watched: they may wait for their turn, and requests of URLs end by limits of
  // their own.
  bool Start(const std::shared_ptr<Group>& group, size_t i) {
    const ReadRequest& request = group->requests[i];
    if (!request.file->starts_reads()) return false;
    group->num_left.fetch_add(1, std::memory_order_relaxed);
    CountStarted(1);
    bool started = false;
    const absl::Status tried = Caught([&] {
      started = request.file->StartRead(request.offset, request.out,
                                        [this, group, i](absl::Status status) {
                                          group->statuses[i] = std::move(status);
                                          EndOne(*group);
                                          CountStarted(-1);
                                        });
    });
    if (started) return true;
    if (!tried.ok()) group->statuses[i] = tried;
    group->num_left.fetch_sub(1, std::memory_order_relaxed);
    CountStarted(-1);
    return !tried.ok();
  }

  void CountStarted(int64_t change) {
    MutexLock lock(mu_);
    num_started_ += change;
    if (num_started_ == 0) all_ended_.NotifyAll();
  }

  void Run(Group& group) {
    for (const size_t i : group.waiting) {
      group.statuses[i] = stopping_.load(std::memory_order_relaxed)
                              ? absl::CancelledError("the I/O engine is shutting down")
                              : Caught([&] { return Read(group.requests[i]); });
    }
    EndOne(group);
  }

  // One part of the group has ended. Its files are let go before `done`, which may end their last
  // other owner: a file must not end on a thread of its own.
  static void EndOne(Group& group) {
    if (group.num_left.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
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

  Mutex mu_;
  CondVar all_ended_;
  int64_t num_started_ MILLRACE_GUARDED_BY(mu_) = 0;  // reads that files have under way

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
