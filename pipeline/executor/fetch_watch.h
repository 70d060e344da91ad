#ifndef MILLRACE_PIPELINE_EXECUTOR_FETCH_WATCH_H_
#define MILLRACE_PIPELINE_EXECUTOR_FETCH_WATCH_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/context.h"
#include "base/metrics.h"
#include "pipeline/run/records.h"
#include "readers/record_source.h"

namespace millrace::pipeline {

// Counts the bytes that are fetched of shards behind URLs, beside those of the records that were
// read of them, and warns once if the former are too many. Thread-safe, but for Look: one thread
// at a time.
class FetchWatch {
 public:
  // Borrows both for its lifetime. Counts nothing if no shard is behind a URL.
  FetchWatch(const readers::RecordSource& source, Context& context);

  // The records of a run have come. Those that are read again, by themselves, were counted before.
  void Read(const RunRecords& records) const;
  // Brings the counters up to date.
  void Look();

 private:
  // Constant after construction.
  const readers::RecordSource& source_;
  Context& context_;
  const uint64_t kept_bytes_;       // of blocks, of which there may be that many half read
  const std::vector<bool> is_url_;  // by shard
  // These synchronise themselves; null: no shard is behind a URL.
  Counter* const records_;
  Counter* const fetched_;

  // Threads that read -> the one that looks, relaxed: a count.
  mutable std::atomic<uint64_t> record_bytes_{0};

  // Of the thread that looks: what the counters have been told.
  uint64_t told_records_ = 0;
  uint64_t told_fetched_ = 0;
  bool warned_ = false;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_FETCH_WATCH_H_
