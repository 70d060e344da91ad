#ifndef MILLRACE_CLI_LIVE_PROFILE_MEMBERS_H_
#define MILLRACE_CLI_LIVE_PROFILE_MEMBERS_H_

#include "base/host_use.h"
#include "base/run.h"
#include "cli/live/json_fields.h"
#include "pipeline/diagnosis.h"
#include "pipeline/profile.h"

// The members of the structs of pipeline/profile.h, pipeline/diagnosis.h and base/host_use.h, for
// JsonWriter and JsonReader.

namespace millrace {

template <typename Archive, cli::Like<SampleId> T>
void Members(Archive& archive, T& id) {
  archive("epoch", id.epoch);
  archive("record", id.record);
  archive("sub_index", id.sub_index);
}

template <typename Archive, cli::Like<HostUse> T>
void Members(Archive& archive, T& host) {
  archive("now_seconds", host.now_seconds);
  archive("user_seconds", host.user_seconds);
  archive("system_seconds", host.system_seconds);
  archive("voluntary_switches", host.voluntary_switches);
  archive("involuntary_switches", host.involuntary_switches);
  archive("device_read_bytes", host.device_read_bytes);
  archive("call_read_bytes", host.call_read_bytes);
  archive("throttled_seconds", host.throttled_seconds);
  archive("cpu_pressure_seconds", host.cpu_pressure_seconds);
  archive("io_pressure_seconds", host.io_pressure_seconds);
  archive("memory_pressure_seconds", host.memory_pressure_seconds);
  archive("busy_core_seconds", host.busy_core_seconds);
  archive("stolen_core_seconds", host.stolen_core_seconds);
}

namespace pipeline {

template <typename Archive, cli::Like<PipelineSettings> T>
void Members(Archive& archive, T& settings) {
  archive("threads", settings.threads);
  archive("budget_mib", settings.budget_mib);
  archive("ring", settings.ring);
}

// Without the numbers of a stretch of time.
template <typename Archive, cli::Like<DiagnosisOptions> T>
void Members(Archive& archive, T& options) {
  archive("cores", options.cores);
  archive("processors", options.processors);
  archive("unit", options.unit);
  archive("settings", options.settings);
  archive("uint8_saved_bytes", options.uint8_saved_bytes);
}

template <typename Archive, cli::Like<ItemTimes> T>
void Members(Archive& archive, T& times) {
  archive("items", times.items);
  archive("busy_ns", times.busy_ns);
}

template <typename Archive, cli::Like<SlowRows> T>
void Members(Archive& archive, T& slow) {
  archive("row_ns", slow.row_ns);
  archive("rows", slow.rows);
  archive("first", slow.first);
  archive("file", slow.file);
  archive("record", slow.record);
}

template <typename Archive, cli::Like<OpProfile> T>
void Members(Archive& archive, T& op) {
  archive("stage", op.stage);
  archive("summary", op.summary);
  archive("busy_ns", op.busy_ns);
  archive("sampled_runs", op.sampled_runs);
  archive("sampled_rows", op.sampled_rows);
  archive("sampled_ns", op.sampled_ns);
  archive("row_ns", op.row_ns);
  archive("weighed_rows", op.weighed_rows);
  archive("bytes_in", op.bytes_in);
  archive("bytes_out", op.bytes_out);
  archive("slowest", op.slowest);
}

template <typename Archive, cli::Like<FileReads> T>
void Members(Archive& archive, T& reads) {
  archive("file", reads.file);
  archive("reads", reads.reads);
  archive("ns", reads.ns);
  archive("max_ns", reads.max_ns);
}

template <typename Archive, cli::Like<ReadProfile> T>
void Members(Archive& archive, T& reads) {
  archive("groups", reads.groups);
  archive("requests", reads.requests);
  archive("bytes", reads.bytes);
  archive("ns", reads.ns);
  archive("in_flight", reads.in_flight);
  archive("any_ns", reads.any_ns);
  archive("best_window_bytes", reads.best_window_bytes);
  archive("group_ns", reads.group_ns);
  archive("slowest", reads.slowest);
  archive("files", reads.files);
  archive("median_file_ns", reads.median_file_ns);
}

template <typename Archive, cli::Like<HandOverProfile> T>
void Members(Archive& archive, T& hand_over) {
  archive("calls", hand_over.calls);
  archive("ns", hand_over.ns);
}

template <typename Archive, cli::Like<CopyProfile> T>
void Members(Archive& archive, T& copies) {
  archive("batches", copies.batches);
  archive("bytes", copies.bytes);
  archive("issue_ns", copies.issue_ns);
  archive("wait_ns", copies.wait_ns);
}

template <typename Archive, cli::Like<MemoryProfile> T>
void Members(Archive& archive, T& memory) {
  archive("limit_bytes", memory.limit_bytes);
  archive("reserved_bytes", memory.reserved_bytes);
  archive("highest_bytes", memory.highest_bytes);
  archive("standing_bytes", memory.standing_bytes);
  archive("held_bytes", memory.held_bytes);
  archive("batch_bytes", memory.batch_bytes);
}

}  // namespace pipeline

namespace cli {

// Arrays by WaitCause and by ItemKind, as objects with the names of these. `Array` may be constant.
template <typename Array>
struct ByCause {
  Array& times;
};
template <typename Array>
ByCause(Array&) -> ByCause<Array>;
template <typename Array>
struct ByKind {
  Array& times;
};
template <typename Array>
ByKind(Array&) -> ByKind<Array>;

template <typename Archive, typename Array>
void Members(Archive& archive, const ByCause<Array>& by) {
  for (size_t i = 0; i < by.times.size(); ++i) {
    archive(pipeline::WaitCauseName(static_cast<pipeline::WaitCause>(i)), by.times[i]);
  }
}

template <typename Archive, typename Array>
void Members(Archive& archive, const ByKind<Array>& by) {
  for (size_t i = 0; i < by.times.size(); ++i) {
    archive(pipeline::ItemKindName(static_cast<pipeline::ItemKind>(i)), by.times[i]);
  }
}

}  // namespace cli

namespace pipeline {

template <typename Archive, cli::Like<PipelineProfile> T>
void Members(Archive& archive, T& profile) {
  cli::ByKind items{profile.items};
  cli::ByCause waits{profile.wait_ns};
  archive("now_ns", profile.now_ns);
  archive("elapsed_ns", profile.elapsed_ns);
  archive("batches", profile.batches);
  archive("rows", profile.rows);
  archive("workers", profile.workers);
  archive("worker_goal", profile.worker_goal);
  archive("goal_ns", profile.goal_ns);
  archive("busy_ns", profile.busy_ns);
  archive("items", items);
  archive("serial_ns", profile.serial_ns);
  archive("work_ns", profile.work_ns);
  archive("clocked_ns", profile.clocked_ns);
  archive("clocked_cpu_ns", profile.clocked_cpu_ns);
  archive("worked_rows", profile.worked_rows);
  archive("ops", profile.ops);
  archive("wait_ns", waits);
  archive("waits", profile.waits);
  archive("waits_ns", profile.waits_ns);
  archive("hand_over", profile.hand_over);
  archive("copies", profile.copies);
  archive("ring", profile.ring);
  archive("ring_goal", profile.ring_goal);
  archive("ready_ns", profile.ready_ns);
  archive("reads", profile.reads);
  archive("memory", profile.memory);
}

}  // namespace pipeline
}  // namespace millrace

#endif  // MILLRACE_CLI_LIVE_PROFILE_MEMBERS_H_
