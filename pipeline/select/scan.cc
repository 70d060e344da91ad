#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "pipeline/cut/examiner.h"
#include "pipeline/run/processor.h"
#include "pipeline/run/records.h"
#include "pipeline/select/lengths.h"
#include "pipeline/select/selection.h"
#include "pipeline/stages/apply_caught.h"

// Looks at every record once. A run is read in the background, and a worker examines it, sets its
// bits and begins the next runs. So no worker waits, other pipelines of the context get their turn
// after each run, and there are never more than a few runs in memory.

namespace millrace::pipeline {
namespace {

using readers::RecordSource;

constexpr uint64_t kMaxRunRecords = 4096;
constexpr int64_t kMaxBytesUnderWay = 64 << 20;  // one longer record is read alone

// Its tasks and reads share it; the sources and the plan are borrowed while Run waits. `see` is
// called with the findings of each run, one at a time.
class Scan : public std::enable_shared_from_this<Scan> {
 public:
  using See = std::function<void(const Examined&)>;
  Scan(const PhysicalPlan& plan, const RecordSource& source, Context& context,
       const OpenOptions& options, See see)
      : source_(source),
        context_(context),
        progress_(options.index_progress),
        cancels_(options.cancels),
        seed_(plan.seed),
        num_records_(source.num_records()),
        max_runs_(options.cpu_budget > 0
                      ? std::min(options.cpu_budget, context.workers().num_threads())
                      : 2 * context.workers().num_threads()),
        max_bytes_(std::min(kMaxBytesUnderWay, context.memory_budget_bytes() / 4)),
        examiner_(plan),
        processor_(plan, source),
        see_(std::move(see)) {
    for (uint32_t shard = 0; progress_ && shard < source.files().size(); ++shard) {
      if (source.file(shard) != nullptr) {
        total_bytes_ += static_cast<int64_t>(source.file(shard)->size());
      }
    }
  }

  absl::Status Run() {
    std::vector<Work> begun;
    {
      MutexLock lock(mu_);
      begun = BeginLocked();
    }
    for (Work& work : begun) Read(std::move(work));
    while (const std::optional<int64_t> done = AwaitProgress()) {
      if (total_bytes_ > 0) progress_(*done, total_bytes_);
    }
    MutexLock lock(mu_);
    return error_;
  }

 private:
  // Records next to each other that are looked at together.
  struct Stretch {
    uint64_t first = 0;
    std::vector<SampleId> ids;
    RunRecords records;
  };
  using Work = std::unique_ptr<Stretch>;

  // Locates the next run; null behind the last record.
  Work LocateLocked() MILLRACE_REQUIRES(mu_) {
    const uint64_t count = std::min(kMaxRunRecords, num_records_ - next_record_);
    if (count == 0) return nullptr;
    std::vector<SampleId> ids(count);
    for (uint64_t i = 0; i < count; ++i) ids[i].record = next_record_ + i;
    auto work = std::make_unique<Stretch>();
    const int64_t rows = LocateRun(source_, {}, ids, 1, work->records);
    work->first = next_record_;
    ids.resize(static_cast<size_t>(rows));
    work->ids = std::move(ids);
    next_record_ += static_cast<uint64_t>(rows);
    return work;
  }

  // The runs that may begin now; they count as under way.
  std::vector<Work> BeginLocked() MILLRACE_REQUIRES(mu_) {
    std::vector<Work> begun;
    error_.Update(CheckGoesOn(cancels_, "looking through the records was cancelled"));
    while (error_.ok() && runs_ < max_runs_) {
      if (located_ == nullptr) located_ = LocateLocked();
      if (located_ == nullptr) break;
      if (runs_ > 0 && bytes_ + located_->records.bytes() > max_bytes_) break;
      ++runs_;
      bytes_ += located_->records.bytes();
      begun.push_back(std::move(located_));
    }
    return begun;
  }

  void Read(Work work) {
    std::vector<ReadRequest> reads = MakeReads(source_, work->records);
    if (reads.empty()) return Enqueue(std::move(work));
    // std::function wants something that can be copied.
    const std::shared_ptr<Stretch> shared = std::move(work);
    {
      MutexLock lock(mu_);
      ++reads_;
    }
    context_.io().Submit(std::move(reads),
                         [self = shared_from_this(), shared](std::vector<absl::Status> status) {
                           shared->records.read_status = std::move(status);
                           self->Enqueue(shared);
                           MutexLock lock(self->mu_);
                           --self->reads_;  // until here it keeps the workers
                           self->changed_.NotifyAll();
                         });
  }

  void Enqueue(std::shared_ptr<Stretch> work) {
    context_.workers().Enqueue(
        group_, [self = shared_from_this(), work = std::move(work)] { self->Examine(*work); });
  }

  void Examine(const Stretch& work) {
    absl::Status error;
    for (const absl::Status& status : work.records.read_status) error.Update(status);
    Examined found;
    if (error.ok()) error = Caught([&] { ExamineRun(work, found); });
    std::vector<Work> begun;
    {
      MutexLock lock(mu_);
      see_(found);
      if (!error.ok() && work.first < error_record_) {
        error_record_ = work.first;
        error_ = error;
      }
      done_bytes_ += work.records.bytes();
      begun = BeginLocked();
      --runs_;
      bytes_ -= work.records.bytes();
      changed_.NotifyAll();
    }
    // Nothing behind the last of these: what is borrowed may be gone.
    for (Work& next : begun) Read(std::move(next));
  }

  void ExamineRun(const Stretch& work, Examined& found) {
    std::unique_ptr<RunScratch> scratch = TakeScratch();
    scratch->arena.Reset();
    {
      millrace::Run run(scratch->arena, seed_, work.first, work.ids.data(), work.records.rows);
      processor_.Load(work.records, run);
      examiner_.Examine(run, {}, &found);
    }
    MutexLock lock(mu_);
    idle_scratch_.push_back(std::move(scratch));
  }

  std::unique_ptr<RunScratch> TakeScratch() {
    MutexLock lock(mu_);
    if (idle_scratch_.empty()) return std::make_unique<RunScratch>(processor_.MakeScratch());
    auto scratch = std::move(idle_scratch_.back());
    idle_scratch_.pop_back();
    return scratch;
  }

  // Bytes done, each time that they are a hundredth more, and in the end; then nullopt.
  std::optional<int64_t> AwaitProgress() {
    MutexLock lock(mu_);
    while (true) {
      const int64_t news = done_bytes_ - told_bytes_;
      if (news > (runs_ > 0 ? total_bytes_ / 100 : 0)) {
        told_bytes_ = done_bytes_;
        return done_bytes_;
      }
      if (runs_ == 0 && reads_ == 0) return std::nullopt;
      changed_.Wait(mu_);
    }
  }

  // Constant after construction.
  const RecordSource& source_;
  Context& context_;
  const std::function<void(int64_t, int64_t)> progress_;
  const Cancels cancels_;
  const uint64_t seed_;
  const uint64_t num_records_;
  const int max_runs_;
  const int64_t max_bytes_;
  const Examiner examiner_;
  const RunProcessor processor_;
  const std::shared_ptr<TaskGroup> group_ = Workers::MakeGroup();  // the group of its tasks
  int64_t total_bytes_ = 0;

  Mutex mu_;
  CondVar changed_;  // wakes Run
  const See see_ MILLRACE_GUARDED_BY(mu_);
  uint64_t next_record_ MILLRACE_GUARDED_BY(mu_) = 0;  // the next record to locate
  Work located_ MILLRACE_GUARDED_BY(mu_);              // the run that was located and not begun
  int runs_ MILLRACE_GUARDED_BY(mu_) = 0;              // the runs under way
  int reads_ MILLRACE_GUARDED_BY(mu_) = 0;      // the reads of them and of runs that just ended
  int64_t bytes_ MILLRACE_GUARDED_BY(mu_) = 0;  // the bytes of them
  int64_t done_bytes_ MILLRACE_GUARDED_BY(mu_) = 0;
  int64_t told_bytes_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t error_record_ MILLRACE_GUARDED_BY(mu_) = UINT64_MAX;
  absl::Status error_ MILLRACE_GUARDED_BY(mu_);  // the error of the lowest run that has one
  std::vector<std::unique_ptr<RunScratch>> idle_scratch_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<Selection> ScanRecords(const PhysicalPlan& scan, const RecordSource& source,
                                      Context& context, const OpenOptions& options) {
  std::vector<uint64_t> bits((source.num_records() + 63) / 64, 0);
  const auto see = [&bits, num_filters = scan.cut->num_filters](const Examined& found) {
    for (const Examined::Row& row : found.rows) {
      if (row.passed_filters != num_filters) continue;
      bits[row.origin.id.record / 64] |= uint64_t{1} << (row.origin.id.record % 64);
    }
  };
  MILLRACE_RETURN_IF_ERROR(std::make_shared<Scan>(scan, source, context, options, see)->Run());
  return Selection(source.num_records(), std::move(bits));
}

absl::StatusOr<LengthTable> ScanLengths(const PhysicalPlan& scan, const RecordSource& source,
                                        Context& context, const OpenOptions& options) {
  LengthTable table(source.num_records(), Examiner(scan).extents_per_row());
  const auto see = [&table](const Examined& found) {
    for (size_t i = 0; i < found.rows.size(); ++i) {
      const Examined::Row& row = found.rows[i];
      if (row.error < 0) table.Set(row.origin.id.record, found.extents.data() + i * table.width());
    }
  };
  MILLRACE_RETURN_IF_ERROR(std::make_shared<Scan>(scan, source, context, options, see)->Run());
  return table;
}

}  // namespace millrace::pipeline
