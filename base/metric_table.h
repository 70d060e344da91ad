#ifndef MILLRACE_BASE_METRIC_TABLE_H_
#define MILLRACE_BASE_METRIC_TABLE_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/metrics.h"

// All metrics of Millrace. docs/metrics.md has the same table, which is made from this one.

namespace millrace::metric {

// Batches and their samples.
inline constexpr CounterFamily kBatches{
    {.name = "millrace_batches_total", .unit = "batches", .help = "batches delivered by Next"}};
inline constexpr CounterFamily kRecordsRead{
    {.name = "millrace_records_read_total",
     .unit = "rows",
     .help = "rows that were worked on for batches; behind a cut those of pass 2"}};
inline constexpr CounterFamily kRecordsExamined{{.name = "millrace_records_examined_total",
                                                 .unit = "rows",
                                                 .help = "rows that pass 1 looked at"}};
inline constexpr CounterFamily kRecordsBad{
    {.name = "millrace_records_bad_total",
     .unit = "rows",
     .help = "damaged samples and other bad rows of the batches that were due"}};
inline constexpr CounterFamily kRecordsDamaged{
    {.name = "millrace_records_damaged_total",
     .unit = "samples",
     .help = "damaged samples that a policy took out, by reason",
     .label = "reason"}};

// Reading.
inline constexpr CounterFamily kBytesRead{
    {.name = "millrace_bytes_read_total",
     .unit = "bytes",
     .help = "bytes asked for from files, as they lie in the shard after inflating"}};
inline constexpr CounterFamily kFetchedBytes{
    {.name = "millrace_fetched_bytes_total",
     .unit = "bytes",
     .help = "bytes of URLs that were fetched since pipelines were open, but for those that were "
             "fetched ahead and not yet read; there with the first URL"}};
inline constexpr CounterFamily kFetchedRecordBytes{
    {.name = "millrace_fetched_record_bytes_total",
     .unit = "bytes",
     .help = "bytes of the records that these pipelines read of URLs, with their frames"}};
inline constexpr CounterFamily kReadsOverdue{
    {.name = "millrace_reads_overdue_total",
     .unit = "reads",
     .help = "reads that took longer than ContextOptions::read_deadline"}};
inline constexpr GaugeFamily kReadsOverdueNow{
    {.name = "millrace_reads_overdue",
     .unit = "reads",
     .help = "reads under way that have taken longer than ContextOptions::read_deadline"},
    /*shows_highest=*/true};

inline constexpr CounterFamily kReadGroups{
    {.name = "millrace_read_groups_total",
     .unit = "groups",
     .help = "groups of reads that have ended: those that fetch the records of a run"}};
inline constexpr CounterFamily kReadGroupSeconds{
    {.name = "millrace_read_group_seconds_total",
     .unit = "seconds",
     .help = "time of groups of reads, from submission to the last byte"}};
inline constexpr CounterFamily kReadRequests{
    {.name = "millrace_read_requests_total",
     .unit = "requests",
     .help = "ranges of files in groups of reads that have ended"}};

// Work and waits.
inline constexpr CounterFamily kWorkSeconds{{.name = "millrace_work_seconds_total",
                                             .unit = "seconds",
                                             .help = "time of workers inside ops"}};
inline constexpr CounterFamily kConsumerWaits{{.name = "millrace_consumer_waits_total",
                                               .unit = "calls",
                                               .help = "calls of Next that had to wait"}};
inline constexpr HistogramFamily kConsumerWaitSeconds{
    {.name = "millrace_consumer_wait_seconds",
     .unit = "seconds",
     .help = "time of the calls of Next that had to wait"}};
inline constexpr CounterFamily kWaitCauseSeconds{
    {.name = "millrace_consumer_wait_cause_seconds_total",
     .unit = "seconds",
     .help = "time of the calls of Next that had to wait, by what the batch waited for",
     .label = "cause"}};
inline constexpr CounterFamily kHandOvers{
    {.name = "millrace_hand_overs_total",
     .unit = "calls",
     .help = "calls of Next that found their batch ready and were measured: one in eight"}};
inline constexpr CounterFamily kHandOverSeconds{
    {.name = "millrace_hand_over_seconds_total",
     .unit = "seconds",
     .help = "time of these calls, from their begin to their return"}};
inline constexpr CounterFamily kWorkerSeconds{
    {.name = "millrace_worker_seconds_total",
     .unit = "seconds",
     .help = "time of workers, by the kind of item that they worked on",
     .label = "kind"}};
inline constexpr CounterFamily kStageSeconds{{.name = "millrace_stage_seconds_total",
                                              .unit = "seconds",
                                              .help = "time of workers inside ops, by stage",
                                              .label = "stage"}};
inline constexpr GaugeFamily kWorkerTarget{{.name = "millrace_worker_target",
                                            .unit = "threads",
                                            .help = "workers that pipelines use at most now"},
                                           /*shows_highest=*/true};
inline constexpr GaugeFamily kRingTarget{{.name = "millrace_ring_target_batches",
                                          .unit = "batches",
                                          .help = "batches that pipelines keep open at most now"},
                                         /*shows_highest=*/true};
inline constexpr GaugeFamily kMemoryReserved{
    {.name = "millrace_memory_reserved_bytes",
     .unit = "bytes",
     .help = "memory counted against the budget: permanent and work"},
    /*shows_highest=*/true};

// The process, where its metrics are exported (--metrics, --metrics-file).
inline constexpr CounterFamily kStorageReadBytes{
    {.name = "millrace_storage_read_bytes_total",
     .unit = "bytes",
     .help = "bytes that this process made storage deliver; there with an exporter"}};
inline constexpr CounterFamily kCallReadBytes{
    {.name = "millrace_call_read_bytes_total",
     .unit = "bytes",
     .help = "bytes that calls of this process read of files, from the page cache too; there with "
             "an exporter"}};
inline constexpr CounterFamily kContextSwitches{
    {.name = "millrace_context_switches_total",
     .unit = "switches",
     .help = "context switches of this process's threads; there with an exporter",
     .label = "kind"}};

// Training. The numbers of a line of output are there on the rank that prints it.
inline constexpr CounterFamily kTrainSteps{{.name = "millrace_train_steps_total",
                                            .unit = "steps",
                                            .help = "steps of ranks that go in step"}};
inline constexpr CounterFamily kTrainSkippedSteps{
    {.name = "millrace_train_skipped_steps_total",
     .unit = "steps",
     .help = "steps that were skipped, for their gradients were not finite"}};
inline constexpr CounterFamily kTrainSamples{
    {.name = "millrace_train_samples_total",
     .unit = "samples",
     .help = "samples of the steps over all ranks; counted on rank 0"}};
inline constexpr HistogramFamily kTrainStepSeconds{
    {.name = "millrace_train_step_seconds", .unit = "seconds", .help = "time of the steps"}};
inline constexpr CounterFamily kTrainDataWait{
    {.name = "millrace_train_data_wait_seconds_total",
     .unit = "seconds",
     .help = "the part of the steps' time in which the rank waited for its batches"}};
inline constexpr GaugeFamily kTrainStep{
    {.name = "millrace_train_step", .unit = "steps", .help = "step of the newest line"}};
inline constexpr GaugeFamily kTrainEpoch{{.name = "millrace_train_epoch",
                                          .unit = "epochs",
                                          .help = "epochs at the step of the newest line"}};
inline constexpr GaugeFamily kTrainLoss{
    {.name = "millrace_train_loss",
     .unit = "loss",
     .help = "loss of the newest line; of an adversarial job the discriminator's"}};
inline constexpr GaugeFamily kTrainGeneratorLoss{{.name = "millrace_train_generator_loss",
                                                  .unit = "loss",
                                                  .help = "generator's loss of the newest line"}};
inline constexpr GaugeFamily kTrainLearningRate{{.name = "millrace_train_learning_rate",
                                                 .unit = "rate",
                                                 .help = "learning rate of the newest line"}};
inline constexpr GaugeFamily kTrainGradientNorm{
    {.name = "millrace_train_gradient_norm",
     .unit = "norm",
     .help = "largest gradient norm of the newest line; there with clip_norm"}};
inline constexpr GaugeFamily kEvaluationLoss{{.name = "millrace_evaluation_loss",
                                              .unit = "loss",
                                              .help = "mean loss of the newest evaluation"}};
inline constexpr GaugeFamily kEvaluationAccuracy{{.name = "millrace_evaluation_accuracy_ratio",
                                                  .unit = "ratio",
                                                  .help = "accuracy of the newest evaluation"}};
inline constexpr GaugeFamily kEvaluationError{
    {.name = "millrace_evaluation_error",
     .unit = "error",
     .help = "mean absolute error of the newest evaluation"}};
inline constexpr CounterFamily kRanksLost{
    {.name = "millrace_ranks_lost_total",
     .unit = "ranks",
     .help = "ranks that ranks of this process have given up"}};

// One family of the table.
struct Row {
  const MetricFamily* family = nullptr;
  std::string_view type;  // as of MetricValues
  bool shows_highest = false;
};
std::span<const Row> Table();

// The page `markdown` with the table between its lines "<!-- metrics -->" and "<!-- end of metrics
// -->" made anew.
//   INVALID_ARGUMENT  a line is missing
absl::StatusOr<std::string> WithTable(std::string_view markdown);

}  // namespace millrace::metric

#endif  // MILLRACE_BASE_METRIC_TABLE_H_
