#ifndef MILLRACE_TESTS_PIPELINE_AUDIT_AUDIT_FIXTURE_H_
#define MILLRACE_TESTS_PIPELINE_AUDIT_AUDIT_FIXTURE_H_

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/audit.h"
#include "tests/temp_folder.h"

// Audit logs of a stream that is known without a pipeline.

namespace millrace::pipeline {

// A stream of numbers, written down without the pipeline: batches of 8 over epochs of 50 records,
// another order each epoch.
inline constexpr uint64_t kRecords = 50, kBatch = 8, kBatchesPerEpoch = 7;

inline AuditBatch Slice(uint64_t index, int rank, int world) {
  AuditBatch batch;
  batch.index = index;
  batch.epoch = index / kBatchesPerEpoch;
  batch.ends_epoch = index % kBatchesPerEpoch == kBatchesPerEpoch - 1;
  const uint64_t first = index % kBatchesPerEpoch * kBatch;
  const uint64_t valid = std::min(kBatch, kRecords - first);
  const auto begin = static_cast<uint64_t>(rank) * kBatch / static_cast<uint64_t>(world);
  const auto end = static_cast<uint64_t>(rank + 1) * kBatch / static_cast<uint64_t>(world);
  batch.first_global_row = static_cast<int64_t>(begin);
  batch.num_rows = static_cast<int64_t>(end - begin);
  batch.num_global_valid_rows = static_cast<int64_t>(valid);
  for (uint64_t row = begin; row < std::min(end, valid); ++row) {
    const uint64_t record = ((first + row) * 7 + batch.epoch * 3) % kRecords;
    batch.visits.push_back({static_cast<int64_t>(row - begin), {batch.epoch, record, 0}});
  }
  return batch;
}

inline AuditHeader Header(int rank, int world, uint64_t start, uint64_t started_ns) {
  AuditHeader header;
  header.semantics_version = 1;
  header.plan_fingerprint = 0xABCD;
  header.data_fingerprint = 0xDA7A;
  header.rank = rank;
  header.world = world;
  header.start_batch = start;
  header.expected_records = kRecords;
  header.started_ns = started_ns;
  return header;
}

class AuditTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }

  // One start of a rank: logs batches [start, end). `change` may spoil a slice, or leave it out by
  // returning false. Starts are ordered as they are logged.
  using Change = std::function<bool(AuditBatch&)>;
  void Log(const std::string& name, int rank, int world, uint64_t start, uint64_t end,
           bool end_of_stream = false, const Change& change = {}) {
    auto log = AuditLog::Open(Path(name), Header(rank, world, start, ++clock_));
    ASSERT_TRUE(log.ok()) << log.status();
    for (uint64_t index = start; index < end; ++index) {
      AuditBatch slice = Slice(index, rank, world);
      if (change && !change(slice)) continue;
      ASSERT_TRUE((*log)->Add(slice).ok());
    }
    if (end_of_stream) {
      ASSERT_TRUE((*log)->Finish(end, true).ok());
    }
  }

  AuditReport Check(std::vector<std::string> names, const AuditOptions& options = {}) const {
    for (std::string& name : names) name = Path(name);
    auto report = CheckAudit(names, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : AuditReport();
  }

  const TempFolder folder_;
  uint64_t clock_ = 0;
};

inline std::string Words(const AuditReport& report) {
  return absl::StrCat(absl::StrJoin(report.violations, "\n"), "\nnotes:\n",
                      absl::StrJoin(report.notes, "\n"));
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_AUDIT_AUDIT_FIXTURE_H_
