#ifndef MILLRACE_TRAINER_BACKEND_CUDA_VALUES_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/buffers.h"
#include "trainer/backend/fusion.h"
#include "trainer/model/model.h"

namespace millrace::trainer::cuda {

// What a network is compiled for.
struct Compiled {
  const Model& model;
  int64_t rows = 1;
  NetworkUse use = NetworkUse::kTraining;
  DType type = DType::kF32;  // of what is between layers
  bool fuses = true;
};

// The tensors of a network's values and of their gradients: rows of pixels of channels. A ReLU
// works in place where nothing else needs its input, so do layers that a batch norm does, and a
// reshaped value is the one it is made of. The gradient of a sum is that of its terms where nothing
// else reads them.
class Values {
 public:
  Values(const Compiled& compiled, Buffers& buffers);

  // None: an input that is read folded alone.
  const Tensor& data(int value) const { return data_[value]; }
  // The folded copy of an input; none: no layer reads it.
  const Tensor& folded(int value) const { return folded_[value]; }
  // True if layer `i` reads the folded copy of its input.
  bool ReadsFolded(size_t i) const;
  // None: nothing needs the gradient of this value.
  const Tensor& gradient(int value) const { return gradients_[value]; }
  // The pixels of all rows; a vector is one pixel of a row.
  int64_t pixels(int value) const;
  // As they lie in memory.
  int64_t channels(int value) const;
  int64_t count(int value) const { return pixels(value) * channels(value); }

  const Fusion& fusion() const { return fusion_; }
  // True if layer `i` applies the ReLU that alone reads its result.
  bool HasFusedRelu(size_t i) const;
  // True if layer `i` is a ReLU that the layer before applies, or what a batch norm does.
  bool IsFused(size_t i) const;
  // The max pool that batch norm `i` does with its ReLU, whose result nothing else reads: neither
  // that value nor its gradient is in memory. -1: none.
  int PoolOfNorm(size_t i) const { return pools_[i]; }

  // The most pixels and channels of any value.
  int64_t most_pixels() const;
  int64_t most_channels() const;

 private:
  Tensor NewTensor(const std::string& name, int value, DType type);
  DType TypeOf(int value) const;
  void AddInput(int value);
  void AddOutput(size_t i);
  void AddGradient(size_t i, bool is_same, int source);
  void ShareGradientOfSum(const Layer& sum);
  bool MayWorkInPlace(size_t i) const;
  int FindPool(size_t norm) const;

  const Compiled compiled_;
  const Model& model_;
  Buffers& buffers_;
  const Wiring wiring_;
  const Fusion fusion_;
  const std::vector<bool> needs_gradient_;  // by value
  std::vector<int> pools_;                  // by layer: PoolOfNorm
  std::vector<Tensor> data_;                // by value
  std::vector<Tensor> folded_;              // by value
  std::vector<Tensor> gradients_;           // by value
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_VALUES_H_
