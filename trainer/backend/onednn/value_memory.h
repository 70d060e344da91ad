#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_VALUE_MEMORY_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_VALUE_MEMORY_H_

#include <dnnl.hpp>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "trainer/backend/arena.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/fusion.h"
#include "trainer/backend/onednn/segments.h"
#include "trainer/model/model.h"

namespace millrace::trainer {

inline constexpr auto kF32 = dnnl::memory::data_type::f32;
inline constexpr auto kHalf = dnnl::memory::data_type::bf16;

// The memory of a network's values and of their gradients: NHWC, or [rows, values]. A ReLU works in
// place where nothing else needs its input, so do layers that a batch norm does, and a reshaped
// value shares the bytes of the one it is made of. All lie in one arena, in which those share bytes
// that no pass needs at the same time. May throw dnnl::error.
class ValueMemory {
 public:
  // Plans the arena. `model` outlives it. Gradients are made for training only, those of inputs if
  // `use` says so.
  ValueMemory(const Model& model, int64_t rows, NetworkUse use, const BackendOptions& options,
              const dnnl::engine& engine);

  // Gives all memories their places, once, before a primitive runs. May throw std::bad_alloc.
  void Allocate();

  const dnnl::memory& data(int value) const { return data_[value]; }
  // Empty: nothing reads the gradient of this value.
  const dnnl::memory& gradient(int value) const { return gradients_[value]; }
  // A second term of the gradient, which the batch norm behind the value adds; may be empty.
  const dnnl::memory& more_gradient(int value) const { return more_gradients_[value]; }
  // The memory for a term of a gradient that is added to those of other readers; may be empty.
  dnnl::memory term(size_t layer, size_t slot) const;
  const Fusion& fusion() const { return fusion_; }
  const ArenaPlan& plan() const { return plan_; }
  // The order in which the layers have to run backward.
  const std::vector<Segment>& segments() const { return segmentation_.segments; }
  dnnl::memory::data_type type() const { return type_; }  // of what is between layers

  // The memory with another description, sharing its bytes.
  dnnl::memory View(const dnnl::memory& memory, const dnnl::memory::desc& desc);

  // Input `i` of the model, of float32, becomes the batch. Other inputs have memory of their own.
  void SetInput(size_t i, std::span<const float> batch) const;

  // True if layer `i` is to apply the ReLU that alone reads its result.
  bool HasFusedRelu(size_t i) const;
  // True if layer `i` is a ReLU that the layer before applies.
  bool IsFused(size_t i) const;
  // True for a max pool that alone reads the result of a ReLU that works in place: where the pool's
  // result is positive, so was the ReLU's.
  bool MasksSource(size_t i) const;
  // True if layer `i` is a ReLU before such a pool.
  bool IsMasked(size_t i) const;
  // True if the gradient of input `slot` of layer `i` is the first that backward computes for that
  // value; others are added to it.
  bool WritesFirst(size_t i, size_t slot) const;

  static std::span<float> Floats(const dnnl::memory& memory);

 private:
  using Reader = Wiring::Reader;

  bool MayWorkInPlace(size_t i) const;
  dnnl::memory NewBuffer(const dnnl::memory::desc& desc);
  void AddTerms(size_t i);
  // Adds the memory's buffer, if it has one.
  void Use(const dnnl::memory& memory, std::vector<size_t>& users) const;
  void UseForward(size_t i, bool is_training);
  void UseBackward(size_t i);
  void UseLosses(bool is_training);
  void UseAfterwards();
  void Plan(bool recomputes);
  void AddInput(const ModelInput& input, NetworkUse use);
  void AddOutput(size_t i, bool is_training);
  void AddMoreGradient(int value);
  void ShareGradientOfSum(const Layer& sum);
  bool IsOfNorm(int value) const;
  dnnl::memory::data_type TypeOf(int value) const;
  dnnl::memory::desc DescOf(int value, dnnl::memory::data_type type) const;

  const Model& model_;
  const int64_t rows_;
  const dnnl::memory::data_type type_;
  const bool fuses_;
  const dnnl::engine engine_;
  const Wiring wiring_;
  const Fusion fusion_;
  std::vector<bool> is_in_place_;                            // by layer
  std::vector<dnnl::memory> data_;                           // by value
  std::vector<dnnl::memory> gradients_;                      // by value
  std::vector<dnnl::memory> more_gradients_;                 // by value
  std::map<std::pair<size_t, size_t>, dnnl::memory> terms_;  // by layer and slot
  BufferUses uses_;
  Segmentation segmentation_;
  // Memories in the arena, with their buffers.
  std::vector<std::pair<dnnl::memory, size_t>> placed_;
  std::map<dnnl_memory_t, size_t> buffer_of_;
  ArenaPlan plan_;
  std::unique_ptr<void, FreeMemory> arena_;
  // By input of the model: all that point at the batch.
  std::vector<std::vector<dnnl::memory>> input_views_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_VALUE_MEMORY_H_
