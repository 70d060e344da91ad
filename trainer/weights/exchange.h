#ifndef MILLRACE_TRAINER_WEIGHTS_EXCHANGE_H_
#define MILLRACE_TRAINER_WEIGHTS_EXCHANGE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"

namespace millrace::trainer {

// Takes the weights and buffers of `model` out of `file`, which was read from `path`: tensors with
// our names and layouts, or with PyTorch's. Those whose names match a pattern of `except` (*, ? and
// [...], of either name) keep their values in `weights` and `buffers`. Slots of an optimizer in a
// checkpoint, and PyTorch's num_batches_tracked, are passed over.
//   INVALID_ARGUMENT  tensors are missing, have other shapes, or belong to no layer; the text names
//                     the first ten of each kind; or a value is not finite
absl::Status TakeWeights(const std::string& path, TensorFile file, const Model& model,
                         const std::vector<std::string>& except, TensorSet& weights,
                         TensorSet& buffers);

// The first pattern of `except` that matches no tensor of `model`, by our names or PyTorch's, and
// none of `file`; nullopt: all match.
std::optional<size_t> FirstWithoutMatch(const TensorFile& file, const Model& model,
                                        const std::vector<std::string>& except);

// The tensors of a file, and the elements of those that had to be laid out anew.
struct TorchTensors {
  std::vector<TensorRef> tensors;
  std::vector<std::vector<float>> storage;
};

// Weights and buffers with PyTorch's names and layouts. The result borrows from `buffers`.
TorchTensors WithTorchNames(const Model& model, const TensorSet& weights, const TensorSet& buffers);

// Weights and buffers with our names. The result borrows.
std::vector<TensorRef> WithOurNames(const Model& model, const TensorSet& weights,
                                    const TensorSet& buffers);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_WEIGHTS_EXCHANGE_H_
