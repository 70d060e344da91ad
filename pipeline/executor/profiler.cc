#include "pipeline/executor/profiler.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <variant>

#include "pipeline/profile/split_work.h"

namespace millrace::pipeline {
namespace {

constexpr int64_t kWindowNanoseconds = 100'000'000;
constexpr size_t kMostFiles = 16;

// The kind of each alternative of WorkItem behind the first, which is nothing.
constexpr std::array kKinds = {ItemKind::kOpen,   ItemKind::kPlan,    ItemKind::kSubmit,
                               ItemKind::kSubmit, ItemKind::kProcess, ItemKind::kFinish,
                               ItemKind::kScan,   ItemKind::kExamine, ItemKind::kSettle};
static_assert(kKinds.size() + 1 == std::variant_size_v<WorkItem>);

}  // namespace

ItemKind KindOf(const WorkItem& item) { return kKinds[item.index() - 1]; }

bool HasOrder(const WorkItem& item) {
  const auto* const plan = std::get_if<PlanItem>(&item);
  return (plan != nullptr && !plan->batch->closed) || std::holds_alternative<ScanItem>(item);
}

// LevelTime.

void LevelTime::Begin(int64_t now_ns, int64_t level) {
  level_ = level;
  since_ns_ = now_ns;
  sum_ = 0;
}

void LevelTime::Set(int64_t now_ns, int64_t level) {
  sum_ = Sum(now_ns);
  since_ns_ = std::max(since_ns_, now_ns);
  level_ = level;
}

int64_t LevelTime::Sum(int64_t now_ns) const {
  return sum_ + level_ * std::max<int64_t>(0, now_ns - since_ns_);
}

// WaitWatch.

void WaitWatch::Begin(int64_t now_ns, WaitCause cause) {
  if constexpr (!kProfiles) return;
  waits_ = true;
  cause_ = cause;
  begins_ns_ = since_ns_ = traced_ns_ = now_ns;
}

void WaitWatch::Note(int64_t now_ns, WaitCause cause) {
  now_ns = std::max(now_ns, since_ns_);
  ns_[static_cast<size_t>(cause_)] += now_ns - since_ns_;
  since_ns_ = now_ns;
  if (cause == cause_) return;
  if (trace_ != nullptr) trace_->AddWait(cause_, traced_ns_, now_ns);
  traced_ns_ = now_ns;
  cause_ = cause;
}

void WaitWatch::End(int64_t now_ns) {
  if constexpr (!kProfiles) return;
  Note(now_ns, cause_);
  if (trace_ != nullptr) trace_->AddWait(cause_, traced_ns_, since_ns_);
  waits_ = false;
  lengths_.Add(static_cast<uint64_t>(since_ns_ - begins_ns_));
}

void WaitWatch::Fill(int64_t now_ns, PipelineProfile& profile) const {
  profile.wait_ns = ns_;
  if (waits_) {
    profile.wait_ns[static_cast<size_t>(cause_)] += std::max<int64_t>(0, now_ns - since_ns_);
  }
  profile.waits = static_cast<int64_t>(lengths_.count());
  profile.waits_ns = lengths_;
}

// ReadTimes.

void ReadTimes::Clear(int64_t now_ns) {
  under_way_.Begin(now_ns, 0);
  any_.Begin(now_ns, 0);
  window_ns_ = now_ns;
  window_bytes_ = 0;
  sums_ = {};
  std::ranges::fill(files_, FileTimes());
}

void ReadTimes::Begin(int64_t now_ns) {
  if constexpr (!kProfiles) return;
  under_way_.Set(now_ns, under_way_.level() + 1);
  any_.Set(now_ns, 1);
}

void ReadTimes::End(int64_t now_ns, const RunRecords& records) {
  if constexpr (!kProfiles) return;
  under_way_.Set(now_ns, under_way_.level() - 1);
  any_.Set(now_ns, under_way_.level() > 0 ? 1 : 0);
  const int64_t ns = std::max<int64_t>(0, now_ns - records.submitted_ns);
  ++sums_.groups;
  sums_.requests += static_cast<int64_t>(records.spans.size());
  sums_.bytes += records.bytes();
  sums_.ns += ns;
  sums_.group_ns.Add(static_cast<uint64_t>(ns));
  CountWindow(now_ns, records.bytes());
  const uint32_t shard = records.refs[static_cast<size_t>(records.spans.front().begin)].shard;
  if (trace_ != nullptr) trace_->AddRead(shard, records.bytes(), records.submitted_ns, now_ns);
  if (shard >= files_.size()) files_.resize(shard + 1);  // of a source that grows
  FileTimes& file = files_[shard];
  ++file.reads;
  file.ns += ns;
  file.max_ns = std::max(file.max_ns, ns);
}

void ReadTimes::CountWindow(int64_t now_ns, int64_t bytes) {
  if (now_ns - window_ns_ >= kWindowNanoseconds) {
    window_ns_ = now_ns;
    window_bytes_ = 0;
  }
  window_bytes_ += bytes;
  sums_.best_window_bytes = std::max(sums_.best_window_bytes, window_bytes_);
}

void ReadTimes::Fill(int64_t now_ns, ReadProfile& profile) const {
  profile = sums_;
  profile.files_ns = sums_.ns;
  profile.in_flight = under_way_.level();
  profile.any_ns = any_.Sum(now_ns);
}

void FillFiles(std::span<const FileTimes> files, std::span<const std::string> names,
               ReadProfile& profile) {
  std::vector<size_t> read;
  for (size_t shard = 0; shard < files.size(); ++shard) {
    if (files[shard].reads > 0) read.push_back(shard);
  }
  profile.files = static_cast<int64_t>(read.size());
  if (read.empty()) return;
  const auto mean_of = [&](size_t shard) { return files[shard].ns / files[shard].reads; };
  const auto middle = read.begin() + static_cast<ptrdiff_t>(read.size() / 2);
  std::ranges::nth_element(read, middle, std::greater<>(), mean_of);
  profile.median_file_ns = mean_of(*middle);
  const auto shown = read.begin() + static_cast<ptrdiff_t>(std::min(read.size(), kMostFiles));
  std::ranges::partial_sort(read, shown, std::greater<>(), mean_of);
  for (const size_t shard : std::span(read.begin(), shown)) {
    const FileTimes& file = files[shard];
    profile.slowest.push_back(
        {shard < names.size() ? names[shard] : "", file.reads, file.ns, file.max_ns});
  }
}

// Profiler.

Profiler::Profiler(const PhysicalPlan& plan, const readers::RecordSource& source, int threads)
    : plan_(plan), ops_(plan.ops.size() + 2), reads_(source.files().size()) {
  goal_.Begin(0, threads);
}

void Profiler::Begin(int64_t now_ns) {
  begins_ns_ = now_ns;
  items_ = {};
  work_ = {};
  serial_ns_ = batches_ = rows_ = 0;
  goal_.Begin(now_ns, goal_.level());
  ready_.Begin(now_ns, 0);
  std::ranges::fill(ops_, OpProfile());
  waits_.Clear();
  reads_.Clear(now_ns);
}

std::unique_ptr<TraceBuffer> Profiler::SetTrace(std::unique_ptr<TraceBuffer> trace) {
  std::swap(trace_, trace);
  waits_.SetTrace(trace_.get());
  reads_.SetTrace(trace_.get());
  return trace;
}

void Profiler::EndWork(const WorkTimes& work, RunSample& sample) {
  if constexpr (!kProfiles) return;
  work_.rows += work.rows;
  work_.ns += work.ns;
  work_.clocked_ns += work.clocked_ns;
  work_.clocked_cpu_ns += work.clocked_cpu_ns;
  if (!sample.full()) return;
  for (size_t phase = 0; phase < ops_.size(); ++phase) AddPhase(sample, phase);
  sample.Clear();
}

void Profiler::AddPhase(const RunSample& sample, size_t phase) {
  OpProfile& op = ops_[phase];
  const RunSample::Phase& times = sample.phases()[phase];
  const int64_t row_ns = times.ns / sample.rows();
  ++op.sampled_runs;
  op.sampled_rows += sample.rows();
  op.sampled_ns += times.ns;
  op.row_ns.Add(static_cast<uint64_t>(row_ns));
  if (row_ns > op.slowest.row_ns) op.slowest = {row_ns, sample.rows(), sample.first(), "", -1};
  if (!sample.weighed()) return;
  op.weighed_rows += sample.rows();
  op.bytes_in += times.bytes_in;
  op.bytes_out += times.bytes_out;
}

void Profiler::Fill(int64_t now_ns, PipelineProfile& profile) const {
  profile.now_ns = now_ns;
  profile.elapsed_ns = now_ns - begins_ns_;
  profile.batches = batches_;
  profile.rows = rows_;
  profile.worker_goal = static_cast<int>(goal_.level());
  profile.goal_ns = goal_.Sum(now_ns);
  profile.items = items_;
  for (const ItemTimes& kind : items_) profile.busy_ns += kind.busy_ns;
  profile.serial_ns = serial_ns_;
  profile.work_ns = work_.ns;
  profile.clocked_ns = work_.clocked_ns;
  profile.clocked_cpu_ns = work_.clocked_cpu_ns;
  profile.worked_rows = work_.rows;
  profile.ready_ns = ready_.Sum(now_ns);
  profile.ops = ops_;
  NameOps(profile.ops);
  SplitWork(work_.ns, profile.ops);
  waits_.Fill(now_ns, profile);
  reads_.Fill(now_ns, profile.reads);
}

void Profiler::NameOps(std::vector<OpProfile>& ops) const {
  ops.front().stage = "source";
  ops.front().summary = "unframe, check";
  for (size_t i = 0; i < plan_.ops.size(); ++i) {
    ops[i + 1].stage = plan_.ops[i].stage;
    ops[i + 1].summary = plan_.ops[i].summary;
  }
  ops.back().stage = "batch";
  ops.back().summary = "rows into the batch";
}

}  // namespace millrace::pipeline
