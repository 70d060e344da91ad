#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_VALUE_MEMORY_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_VALUE_MEMORY_H_

#include <dnnl.hpp>
#include <span>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/model/model.h"

namespace millrace::trainer {

inline constexpr auto kF32 = dnnl::memory::data_type::f32;

// The memory of a network's values and of their gradients: NHWC, or [rows, values]. A ReLU works in
// place where nothing else needs its input, and a reshaped value shares the bytes of the one it is
// made of. May throw dnnl::error.
class ValueMemory {
 public:
  // `model` outlives it. Gradients are made for training only, those of inputs if `use` says so.
  ValueMemory(const Model& model, int64_t rows, NetworkUse use, const dnnl::engine& engine);

  const dnnl::memory& data(int value) const { return data_[value]; }
  // Empty: nothing reads the gradient of this value.
  const dnnl::memory& gradient(int value) const { return gradients_[value]; }

  // The memory with another description, sharing its bytes.
  dnnl::memory View(const dnnl::memory& memory, const dnnl::memory::desc& desc);

  // Points input `i` of the model, of float32, at the batch. Other inputs have memory of their own.
  void SetInput(size_t i, const void* batch);

  // True if layer `i` is to apply the ReLU that alone reads its result.
  bool HasFusedRelu(size_t i) const;
  // True if layer `i` is a ReLU that the layer before applies.
  bool IsFused(size_t i) const;
  // True if the gradient of input `slot` of layer `i` is the first that backward computes for that
  // value; others are added to it.
  bool WritesFirst(size_t i, size_t slot) const;

  static std::span<float> Floats(const dnnl::memory& memory);

 private:
  // A layer that reads a value; losses count as layers behind the last.
  struct Reader {
    size_t layer = 0;
    size_t slot = 0;
  };

  void FindReaders();
  bool MayWorkInPlace(size_t i) const;
  void AddOutput(size_t i, bool is_training);
  void ShareGradientOfSum(const Layer& sum);

  const Model& model_;
  const int64_t rows_;
  const dnnl::engine engine_;
  std::vector<std::vector<Reader>> readers_;  // by value
  std::vector<int> makers_;                   // the layer that makes each value; -1: an input
  std::vector<bool> is_in_place_;             // by layer
  std::vector<dnnl::memory> data_;            // by value
  std::vector<dnnl::memory> gradients_;       // by value
  std::vector<std::vector<dnnl::memory>> input_views_;  // by input: all that point at the batch
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_VALUE_MEMORY_H_
