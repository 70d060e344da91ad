#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDED_STEPS_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDED_STEPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/trainer/backend/cuda/order/log.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/network_options.h"
#include "trainer/model/model.h"

// Training steps as they are given to a device: the network's operations and the strategy's updates
// on one stream, the reducer's sums on NCCL's, the feed's copies on a third one. All of these are
// the library's own code.

namespace millrace::trainer::cuda::order {

struct StepOptions {
  int ranks = 2;
  int64_t rows = 64;
  int steps = 5;  // more than the feed has slabs
  Precision precision = Precision::kBFloat16;
  int ring = 2;  // of the feed
  NetworkOptions network;
  // The reduction and the optimizer of a job.
  std::string job = "optimizer { sgd { momentum: 0.9 } }";
};

struct RecordedRank {
  Log log;
  std::vector<std::string> undeclared;  // as Recording's
};

// What a step makes is forgotten as the next one begins: it has to make it again.
absl::StatusOr<std::vector<RecordedRank>> RecordSteps(const Model& model,
                                                      const StepOptions& options);

}  // namespace millrace::trainer::cuda::order

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDED_STEPS_H_
