#ifndef MILLRACE_TRAINER_STRATEGY_DEVICE_NORMS_H_
#define MILLRACE_TRAINER_STRATEGY_DEVICE_NORMS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "collectives/communicator.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/kernels/update.h"
#include "trainer/model/model.h"

namespace millrace::trainer {

// Memory of a device of `count` elements, with their values.
template <typename T>
absl::StatusOr<cuda::Memory> MakeDeviceArray(cuda::Device& device, std::span<const T> values) {
  const size_t bytes = std::max<size_t>(1, values.size_bytes());
  MILLRACE_ASSIGN_OR_RETURN(cuda::Memory memory, device.Allocate(bytes));
  MILLRACE_RETURN_IF_ERROR(device.Copy(memory.get(), values.data(), values.size_bytes()));
  MILLRACE_RETURN_IF_ERROR(device.Synchronize());
  return memory;
}

template <typename T>
T* DeviceArray(const cuda::Memory& memory) {
  return reinterpret_cast<T*>(memory.get());
}

// The squares of the weights and gradients of parameters, as AddSquares adds them: norms have the
// bits of the host's, whichever ranks have the pieces of a parameter. Does not wait for the device
// unless there are other ranks. Thread-compatible.
class DeviceNorms {
 public:
  // A region of weights, and their gradients.
  struct Region {
    const float* gradient = nullptr;
    const float* master = nullptr;
  };

  // `tiles`: by region, those of parameters whose norms are wanted; a parameter's lie behind one
  // another. `communicator`, which outlives it: that of the ranks that have the other pieces of the
  // parameters; null: there are none.
  static absl::StatusOr<std::unique_ptr<DeviceNorms>> Make(
      cuda::Device& device, const Model& model,
      const std::vector<std::vector<cuda::UpdateTile>>& tiles,
      collectives::Communicator* communicator);

  // Finds the squares of `regions`. Collective if there is a communicator.
  absl::Status Find(std::span<const Region> regions);
  // In the device's memory, by parameter.
  const cuda::SquaresPair* squares() const { return DeviceArray<cuda::SquaresPair>(squares_); }

 private:
  DeviceNorms(cuda::Device& device, size_t num_parameters, collectives::Communicator* communicator)
      : device_(device), num_parameters_(num_parameters), communicator_(communicator) {}
  absl::Status Allocate(const Model& model,
                        const std::vector<std::vector<cuda::UpdateTile>>& tiles);
  absl::Status OfTiles(cuda::Kernel<cuda::TileNormArgs> kernel, std::span<const Region> regions);
  absl::Status OfParameters(cuda::Kernel<cuda::NormArgsOfParameters> kernel);
  // Puts the `count` numbers of all ranks at `memory` together.
  enum class Together { kLargest, kSum };
  absl::Status Share(const cuda::Memory& memory, size_t count, Together together);

  cuda::Device& device_;
  const size_t num_parameters_;
  collectives::Communicator* const communicator_;
  std::vector<size_t> first_tile_;  // of each region, and their number
  size_t num_ranges_ = 0;
  // In the device's memory.
  cuda::Memory tiles_;
  cuda::Memory ranges_;
  cuda::Memory sizes_;  // by parameter
  cuda::Memory largest_of_tiles_;
  cuda::Memory squares_of_tiles_;
  cuda::Memory largest_;  // by parameter, as `squares_`
  cuda::Memory squares_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_DEVICE_NORMS_H_
