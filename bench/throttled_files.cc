// bench_throttled_files PLAN THREADS SECONDS LATENCY_MS BYTES_PER_SECOND: the diagnosis of a plan
// whose files lie on a slow disk, as `millrace explain --analyze --json` prints it. The files are
// local. The context's I/O engine reads them at once, and hands the bytes over when a disk would
// have: one that answers after LATENCY_MS and delivers BYTES_PER_SECOND in all, or 0: any number.
// The first batch, and a tenth of SECONDS behind it, are left out.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/status.h"
#include "cli/diagnosis_text.h"
#include "pipeline/pipeline.h"
#include "pipeline/stretch.h"
#include "readers/read_engine.h"

namespace millrace::bench {
namespace {

using Clock = std::chrono::steady_clock;

// The disk: groups of reads are served one after the other at its rate, and each is there a latency
// later. Thread-safe.
class SlowDisk : public IoEngine {
 public:
  SlowDisk(std::shared_ptr<IoEngine> files, double latency_seconds, double bytes_per_second)
      : files_(std::move(files)),
        latency_(Seconds(latency_seconds)),
        bytes_per_second_(bytes_per_second),
        thread_([this] { Run(); }) {}
  // Groups whose time has not come are handed over at once.
  ~SlowDisk() override {
    {
      const MutexLock lock(mu_);
      ends_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  void Submit(std::vector<ReadRequest> requests,
              std::function<void(std::vector<absl::Status>)> done) override {
    const Clock::time_point due = Reserve(requests);
    files_->Submit(std::move(requests),
                   [this, due, done = std::move(done)](std::vector<absl::Status> statuses) {
                     Add(due, [done, statuses = std::move(statuses)] { done(statuses); });
                   });
  }

 private:
  static Clock::duration Seconds(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  // The time at which the disk has delivered these reads, behind all earlier ones.
  Clock::time_point Reserve(const std::vector<ReadRequest>& requests) {
    double bytes = 0;
    for (const ReadRequest& request : requests) bytes += static_cast<double>(request.out.size());
    const MutexLock lock(mu_);
    free_ = std::max(free_, Clock::now());
    if (bytes_per_second_ > 0) free_ += Seconds(bytes / bytes_per_second_);
    return free_ + latency_;
  }

  void Add(Clock::time_point due, std::function<void()> hand_over) {
    const MutexLock lock(mu_);
    groups_.emplace(due, std::move(hand_over));
    changed_.NotifyAll();
  }

  // The next group whose time has come; empty at the end.
  std::function<void()> Take() {
    const MutexLock lock(mu_);
    while (!ends_ || !groups_.empty()) {
      if (groups_.empty()) {
        changed_.Wait(mu_);
        continue;
      }
      const Clock::duration left = groups_.begin()->first - Clock::now();
      if (ends_ || left <= Clock::duration::zero()) {
        return std::move(groups_.extract(groups_.begin()).mapped());
      }
      changed_.WaitFor(mu_, left);
    }
    return {};
  }

  void Run() {
    while (const std::function<void()> hand_over = Take()) hand_over();
  }

  // Constant after construction.
  const std::shared_ptr<IoEngine> files_;
  const Clock::duration latency_;
  const double bytes_per_second_;

  Mutex mu_;
  CondVar changed_;
  Clock::time_point free_ MILLRACE_GUARDED_BY(mu_);  // the end of all reads so far
  std::multimap<Clock::time_point, std::function<void()>> groups_ MILLRACE_GUARDED_BY(mu_);
  bool ends_ MILLRACE_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

struct Flags {
  int threads = 1;
  double seconds = 4;
  double latency_ms = 0;
  double bytes_per_second = 0;
};

absl::Status TakeFor(pipeline::Pipeline& stream, double seconds) {
  const Clock::time_point start = Clock::now();
  do {
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, stream.Next());
    if (!batch.has_value()) return absl::FailedPreconditionError("the plan has to repeat for ever");
  } while (std::chrono::duration<double>(Clock::now() - start).count() < seconds);
  return absl::OkStatus();
}

absl::Status Measure(const std::string& file, const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const auto plan, pipeline::Plan::FromFile(file, {}));
  ContextOptions options;
  options.threads = flags.threads;
  MILLRACE_ASSIGN_OR_RETURN(auto files, readers::MakePreadEngine(4));
  options.io =
      std::make_shared<SlowDisk>(std::move(files), 1e-3 * flags.latency_ms, flags.bytes_per_second);
  MILLRACE_ASSIGN_OR_RETURN(const auto context, pipeline::MakeContext(std::move(options)));
  pipeline::OpenOptions open;
  open.adapt = false;
  MILLRACE_ASSIGN_OR_RETURN(const auto stream, pipeline::Pipeline::Open(plan, context, open));
  MILLRACE_RETURN_IF_ERROR(TakeFor(*stream, 0));
  MILLRACE_RETURN_IF_ERROR(TakeFor(*stream, 0.1 * flags.seconds));
  const pipeline::Stretch stretch(*stream, *context);
  MILLRACE_RETURN_IF_ERROR(TakeFor(*stream, flags.seconds));
  const auto diagnosis = stretch.Diagnose(pipeline::DiagnosisOptionsOf(plan, *stream));
  std::puts(cli::DiagnosisText(diagnosis).c_str());
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr,
                 "usage: bench_throttled_files PLAN THREADS SECONDS LATENCY_MS BYTES_PER_SECOND\n");
    return 2;
  }
  const Flags flags = {std::atoi(argv[2]), std::atof(argv[3]), std::atof(argv[4]),
                       std::atof(argv[5])};
  const absl::Status status = Measure(argv[1], flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) { return millrace::bench::Main(argc, argv); }
