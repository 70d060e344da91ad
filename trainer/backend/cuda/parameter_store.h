#ifndef MILLRACE_TRAINER_BACKEND_CUDA_PARAMETER_STORE_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_PARAMETER_STORE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "trainer/backend/cuda/arena_layout.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/tensor_copier.h"
#include "trainer/backend/cuda/tensors.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/slots.h"

namespace millrace::trainer::cuda {

struct StoreOptions {
  DType compute = DType::kF32;  // of the weights that products read: kF32, kBF16 or kF16
  std::vector<GradientPlace> gradients = {};  // by parameter; empty: nothing is trained
  // True if backward writes to memory of the store's, which lies as `gradients` do.
  bool copies_gradients = false;
  std::vector<std::string> slots = {};  // names of the optimizer's slots
  std::vector<Piece> pieces = {};       // those of slots that are kept, as the device has them
};

// The tensors of a model in a device's memory: master weights, the weights that products read,
// slots of the optimizer, and buffers. Each kind has an arena, in which parameters lie as their
// gradients do. On the host tensors are as everywhere: float32, in the model's order.
// Thread-compatible.
class ParameterStore {
 public:
  // All tensors are zeros. `device` and `model` outlive the store, as does the memory of gradients.
  //   RESOURCE_EXHAUSTED  no memory
  //   other               the device's error
  static absl::StatusOr<std::unique_ptr<ParameterStore>> Make(Device& device, const Model& model,
                                                              StoreOptions options);
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  Device& device() const { return device_; }
  // Lives, and stays the same, as long as the store.
  const DeviceTensors& tensors() const { return tensors_; }

  // The calls of this block copy between the host and the device, and wait. Tensors that do not fit
  // the model are INVALID_ARGUMENT; errors of the device name the tensor.

  // Sets all weights, also those that products read.
  absl::Status Import(const TensorSet& weights);
  absl::Status Export(TensorSet& weights) const;
  absl::Status ImportBuffers(const TensorSet& buffers);
  // Sets the kept pieces of the slots. `slots` are whole tensors, of the options' names in order.
  absl::Status ImportSlots(const Slots& slots);
  // REQUIRES: all pieces are kept.
  absl::StatusOr<Slots> ExportSlots() const;
  // The same of another arena of the layout, which has all parameters.
  absl::Status Upload(const TensorSet& tensors, float* arena);
  absl::StatusOr<TensorSet> Download(const float* arena) const;
  // Copies tensors that lie in the device's memory anywhere, by parameter.
  absl::StatusOr<TensorSet> Download(std::span<const float* const> from) const;

  // True if all weights are finite. Waits.
  absl::StatusOr<bool> AreFinite() const;

  // Copies master weights to those that products read. Does not wait.
  absl::Status RefreshCompute();

  // For updates.
  const ArenaLayout& layout() const { return layout_; }
  const SlotLayout& slot_layout() const { return slot_layout_; }
  DType compute_type() const { return options_.compute; }
  const std::vector<std::string>& slot_names() const { return options_.slots; }
  float* masters() const { return As<float>(masters_); }
  void* compute_at(size_t offset) const;  // null: products read the master weights
  float* slot(size_t s) const { return As<float>(slots_[s]); }
  // The memory of piece `parameter` of a slot.
  float* slot_at(size_t s, size_t parameter) const;

 private:
  ParameterStore(Device& device, const Model& model, StoreOptions options);
  absl::Status Allocate();
  void FillTensors();
  float* gradient_at(size_t parameter) const;
  template <typename T>
  static T* As(const Memory& memory) {
    return reinterpret_cast<T*>(memory.get());
  }

  Device& device_;
  const Model& model_;
  const StoreOptions options_;
  const ArenaLayout layout_;
  const SlotLayout slot_layout_;
  std::unique_ptr<TensorCopier> copier_;
  Memory masters_;
  Memory compute_;    // null with kF32
  Memory gradients_;  // null: backward writes to that of the options
  std::vector<Memory> slots_;
  Memory buffers_;
  Memory found_;  // of AreFinite: a number
  DeviceTensors tensors_;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_PARAMETER_STORE_H_
