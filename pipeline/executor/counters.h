#ifndef MILLRACE_PIPELINE_EXECUTOR_COUNTERS_H_
#define MILLRACE_PIPELINE_EXECUTOR_COUNTERS_H_

#include "base/metric_table.h"
#include "base/metrics.h"

namespace millrace::pipeline {

// The metrics of an executor, added up over all pipelines of a Context. Thread-safe.
struct ExecutorCounters {
  explicit ExecutorCounters(Metrics& metrics)
      : records_read(metrics.counter(metric::kRecordsRead)),
        records_examined(metrics.counter(metric::kRecordsExamined)),
        records_bad(metrics.counter(metric::kRecordsBad)),
        bytes_read(metrics.counter(metric::kBytesRead)),
        batches(metrics.counter(metric::kBatches)),
        work_nanoseconds(metrics.counter(metric::kWorkSeconds)),
        wait_nanoseconds(metrics.histogram(metric::kConsumerWaitSeconds)),
        waits(metrics.counter(metric::kConsumerWaits)),
        threads(metrics.gauge(metric::kWorkerTarget)),
        ring(metrics.gauge(metric::kRingTarget)) {}

  Counter& records_read;
  Counter& records_examined;
  Counter& records_bad;
  Counter& bytes_read;
  Counter& batches;
  Counter& work_nanoseconds;
  Histogram& wait_nanoseconds;
  Counter& waits;
  Gauge& threads;
  Gauge& ring;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_COUNTERS_H_
