#ifndef MILLRACE_PIPELINE_EXECUTOR_COUNTERS_H_
#define MILLRACE_PIPELINE_EXECUTOR_COUNTERS_H_

#include "base/metrics.h"

namespace millrace::pipeline {

// The metrics of an executor, added up over all pipelines of a Context. Thread-safe.
struct ExecutorCounters {
  explicit ExecutorCounters(Metrics& metrics)
      : records_read(metrics.counter("millrace_records_read_total")),
        records_examined(metrics.counter("millrace_records_examined_total")),
        records_bad(metrics.counter("millrace_records_bad_total")),
        bytes_read(metrics.counter("millrace_bytes_read_total")),
        batches(metrics.counter("millrace_batches_total")),
        work_nanoseconds(metrics.counter("millrace_work_nanoseconds_total")),
        wait_nanoseconds(metrics.counter("millrace_consumer_wait_nanoseconds_total")),
        waits(metrics.counter("millrace_consumer_waits_total")),
        threads(metrics.gauge("millrace_worker_target")),
        ring(metrics.gauge("millrace_ring_target_batches")) {}

  Counter& records_read;
  Counter& records_examined;
  Counter& records_bad;
  Counter& bytes_read;
  Counter& batches;
  Counter& work_nanoseconds;
  Counter& wait_nanoseconds;
  Counter& waits;
  Gauge& threads;
  Gauge& ring;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_COUNTERS_H_
