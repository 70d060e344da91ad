#ifndef MILLRACE_PIPELINE_BATCH_DAMAGE_H_
#define MILLRACE_PIPELINE_BATCH_DAMAGE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/record_error.h"
#include "base/run.h"
#include "pipeline/batch/data.h"
#include "pipeline/order/order.h"
#include "pipeline/plan/physical.h"

// Damaged samples, and what takes their places (docs/semantics.md, S-DAMAGE).
//
// A batch is mended when all its rows have landed, before anything looks at it as a whole: so what
// becomes of a damaged row depends on the batch alone, never on when or by whom it was found.

namespace millrace::pipeline {

// Substitutes that are tried for a damaged sample.
inline constexpr uint32_t kMaxCandidates = 16;
// The number of samples from which on max_share limits the fraction of damaged ones.
inline constexpr uint64_t kMinSamples = 1000;

// True if the data of a sample is to blame: its checksum, framing, compression, encoding or
// values. Not when a read failed, memory was short, or user code did not say so.
bool IsDamage(const absl::Status& error);

// The sample of candidate `k`, one of `count` kept records of an order, for the damaged sample at
// `position` of the stream: in its epoch. `selection` is null where all records are kept.
// REQUIRES: count > 0.
SampleId Candidate(uint64_t seed, const DamagedSample& damaged, uint64_t position, uint32_t k,
                   uint64_t count, const Selection* selection);

// Takes the rows of `data.damaged` out: leaves them empty, or has those behind them move up within
// their group (`group_of` of each slot; empty: all rows are one). Then each damaged sample's row
// is one that stands empty for it.
void MaskRows(BatchData& data);
void SkipRows(std::span<const uint32_t> group_of, BatchData& data);

// Counts the samples that a rank was delivered. Thread-compatible.
class DamageBudget {
 public:
  // Borrows the spec for its lifetime.
  explicit DamageBudget(const DamageSpec* spec) : spec_(spec) {}

  // Counts a batch, in the order of the stream.
  //   DATA_LOSS  too many were damaged: names the counts, the limit and the last damaged record
  absl::Status Count(const BatchData& data);

 private:
  absl::Status Exceeded(std::string_view limit) const;

  const DamageSpec* spec_;
  uint64_t samples_ = 0;
  uint64_t damaged_ = 0;
  absl::Status last_;  // error of the last damaged sample
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_BATCH_DAMAGE_H_
