#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_SUM_OVER_RANKS_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_SUM_OVER_RANKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/onednn/batch_norm.h"

// The parts of a synchronized batch norm that are sums over all ranks. A rank without valid rows
// takes part with zeros.

namespace millrace::trainer {

// Replaces the moments of this rank's rows by those of all ranks' rows.
absl::Status SumMoments(const SumOverRanksFunction& sum, uint64_t step, Moments& moments);

// Replaces the sums over this rank's rows by those over all ranks' rows.
absl::Status SumGradientSums(const SumOverRanksFunction& sum, uint64_t step, GradientSums& sums);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_SUM_OVER_RANKS_H_
