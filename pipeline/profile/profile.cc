#include "pipeline/profile.h"

#include <algorithm>
#include <numeric>

#include "pipeline/profile/split_work.h"

namespace millrace::pipeline {
namespace {

constexpr std::array<std::string_view, kNumWaitCauses> kCauses = {
    "work", "reading", "budget", "order", "ring", "workers", "source", "hand-off"};
constexpr std::array<std::string_view, kNumItemKinds> kKinds = {
    "open", "plan", "submit", "process", "finish", "scan", "examine", "settle"};

void Subtract(const OpProfile& earlier, OpProfile& op) {
  op.sampled_runs -= earlier.sampled_runs;
  op.sampled_rows -= earlier.sampled_rows;
  op.sampled_ns -= earlier.sampled_ns;
  op.row_ns.Subtract(earlier.row_ns);
  op.weighed_rows -= earlier.weighed_rows;
  op.bytes_in -= earlier.bytes_in;
  op.bytes_out -= earlier.bytes_out;
}

void Subtract(const ReadProfile& earlier, ReadProfile& reads) {
  reads.groups -= earlier.groups;
  reads.requests -= earlier.requests;
  reads.bytes -= earlier.bytes;
  reads.ns -= earlier.ns;
  reads.any_ns -= earlier.any_ns;
  reads.group_ns.Subtract(earlier.group_ns);
}

void Subtract(const CopyProfile& earlier, CopyProfile& copies) {
  copies.batches -= earlier.batches;
  copies.bytes -= earlier.bytes;
  copies.issue_ns -= earlier.issue_ns;
  copies.wait_ns -= earlier.wait_ns;
}

}  // namespace

std::string_view WaitCauseName(WaitCause cause) { return kCauses[static_cast<size_t>(cause)]; }

std::string_view ItemKindName(ItemKind kind) { return kKinds[static_cast<size_t>(kind)]; }

int64_t PipelineProfile::wait_total_ns() const {
  return std::reduce(wait_ns.begin(), wait_ns.end());
}

void SplitWork(int64_t work_ns, std::span<OpProfile> ops) {
  double sampled_ns = 0;
  for (const OpProfile& op : ops) sampled_ns += static_cast<double>(op.sampled_ns);
  const double scale = sampled_ns > 0 ? static_cast<double>(work_ns) / sampled_ns : 0;
  for (OpProfile& op : ops) {
    op.busy_ns = static_cast<int64_t>(static_cast<double>(op.sampled_ns) * scale);
  }
}

PipelineProfile Between(const PipelineProfile& earlier, const PipelineProfile& later) {
  if (earlier.begins_ns() != later.begins_ns()) return later;
  PipelineProfile between = later;
  between.elapsed_ns -= earlier.elapsed_ns;
  between.batches -= earlier.batches;
  between.rows -= earlier.rows;
  between.goal_ns -= earlier.goal_ns;
  between.busy_ns -= earlier.busy_ns;
  for (size_t kind = 0; kind < kNumItemKinds; ++kind) {
    between.items[kind].items -= earlier.items[kind].items;
    between.items[kind].busy_ns -= earlier.items[kind].busy_ns;
  }
  between.serial_ns -= earlier.serial_ns;
  between.work_ns -= earlier.work_ns;
  between.clocked_ns -= earlier.clocked_ns;
  between.clocked_cpu_ns -= earlier.clocked_cpu_ns;
  between.worked_rows -= earlier.worked_rows;
  const size_t ops = std::min(earlier.ops.size(), between.ops.size());
  for (size_t op = 0; op < ops; ++op) Subtract(earlier.ops[op], between.ops[op]);
  SplitWork(between.work_ns, between.ops);
  for (size_t cause = 0; cause < kNumWaitCauses; ++cause) {
    between.wait_ns[cause] -= earlier.wait_ns[cause];
  }
  between.waits -= earlier.waits;
  between.waits_ns.Subtract(earlier.waits_ns);
  between.hand_over.calls -= earlier.hand_over.calls;
  between.hand_over.ns -= earlier.hand_over.ns;
  Subtract(earlier.copies, between.copies);
  between.ready_ns -= earlier.ready_ns;
  Subtract(earlier.reads, between.reads);
  return between;
}

}  // namespace millrace::pipeline
