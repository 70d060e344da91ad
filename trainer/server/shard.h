#ifndef MILLRACE_TRAINER_SERVER_SHARD_H_
#define MILLRACE_TRAINER_SERVER_SHARD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/job/job.pb.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/optimizer/weight_average.h"

namespace millrace::trainer {

// Some parameters of a model: their weights, the optimizer's state and the average. As bytes they
// are the weights of all its parameters, then each slot, then the average, if there is one.
// Thread-compatible.
class Shard {
 public:
  // `model` must outlive it.
  Shard(const OptimizerSpec& spec, const Model& model, std::vector<size_t> parameters);

  const std::vector<size_t>& parameters() const { return parameters_; }
  uint64_t weight_bytes() const { return weight_bytes_; }
  // Bytes of the weights, the state and the average.
  uint64_t all_bytes() const;

  // Takes all tensors. DATA_LOSS: `bytes` are not as many.
  absl::Status Load(std::string_view bytes);
  // The gradient, or the weights, in `bytes`. DATA_LOSS: they are not as many.
  absl::StatusOr<TensorSet> TensorsIn(std::string_view bytes) const;

  // Makes `update` by the sum of `gradients`, in their order, divided by `rows`.
  void Apply(const UpdateStep& update, int64_t rows, std::span<const TensorSet* const> gradients);

  std::string WeightsAsBytes() const;
  std::string AllAsBytes() const;

 private:
  void FindNorms();

  const OptimizerSpec& spec_;
  const Model& model_;
  const std::vector<size_t> parameters_;
  uint64_t weight_bytes_ = 0;
  TensorSet weights_;
  TensorSet sums_;  // of the gradients of an update
  std::optional<Optimizer> optimizer_;
  std::optional<WeightAverage> average_;
};

// The tensors of all parameters of `model` that the chief sends to a server and gets from it.
struct AllTensors {
  TensorSet weights;
  Slots slots;  // with the average as the last, where there is one
};

// Those of `parameters`, as a Shard has them.
std::string BytesOf(const AllTensors& tensors, std::span<const size_t> parameters);
// Takes them back. DATA_LOSS: `bytes` are not as many.
absl::Status TakeAll(std::string_view bytes, std::span<const size_t> parameters,
                     AllTensors& tensors);
// The weights alone.
absl::Status TakeWeightsOf(std::string_view bytes, std::span<const size_t> parameters,
                           TensorSet& weights);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_SHARD_H_
