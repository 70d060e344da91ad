#ifndef MILLRACE_COLLECTIVES_WEIGHTS_DIGEST_H_
#define MILLRACE_COLLECTIVES_WEIGHTS_DIGEST_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "base/tensor.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

struct NamedTensor {
  std::string_view name;
  ConstTensorView view;
};

// XXH3, 64 bits, of a tensor's bytes.
uint64_t DigestOf(const ConstTensorView& view);

// Checks that the bits of `weights` are the same on all ranks, as they should be after every step.
// Costs 16 bytes per rank where they are. Collective.
//   DATA_LOSS  names the first parameter that differs and the lowest rank whose bits are not rank
//              0's; or ranks differ in the number of parameters. All ranks return it together
//              (IsAgreed).
//   other      the collective call failed
absl::Status CompareWeights(Communicator& communicator, std::span<const NamedTensor> weights);

// Compares the weights every `every_steps` steps. Thread-compatible.
class WeightsWatch {
 public:
  // 0: never.
  explicit WeightsWatch(int64_t every_steps) : every_steps_(every_steps) {}

  // Collective; `step` counts from 1 and is the same on all ranks. Outcomes are CompareWeights',
  // with the step.
  absl::Status AfterStep(int64_t step, Communicator& communicator,
                         std::span<const NamedTensor> weights) const;

 private:
  const int64_t every_steps_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_WEIGHTS_DIGEST_H_
