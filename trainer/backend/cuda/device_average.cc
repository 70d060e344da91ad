#include "trainer/backend/cuda/device_average.h"

#include <algorithm>

#include "base/status.h"
#include "trainer/backend/cuda/kernels/update.h"
#include "trainer/optimizer/weight_average.h"

namespace millrace::trainer::cuda {

absl::StatusOr<std::unique_ptr<DeviceAverage>> DeviceAverage::Make(ParameterStore& store,
                                                                   const TensorSet& start,
                                                                   double decay, bool warmup) {
  const size_t bytes = std::max<size_t>(1, store.layout().size) * sizeof(float);
  MILLRACE_ASSIGN_OR_RETURN(Memory memory, store.device().Allocate(bytes));
  std::unique_ptr<DeviceAverage> made(new DeviceAverage(store, decay, warmup, std::move(memory)));
  MILLRACE_RETURN_IF_ERROR(store.Upload(start, made->average()));
  return made;
}

absl::Status DeviceAverage::Add(uint64_t count) {
  Device& device = store_.device();
  AverageArgs args;
  args.element = AverageElementOf(decay_, warmup_, count);
  args.newest = store_.masters();
  args.average = average();
  args.count = static_cast<int64_t>(store_.layout().size);
  return device.OnDevice([&] { return device.kernels().update->average(device.stream(), args); });
}

absl::Status DeviceAverage::Swap() {
  Device& device = store_.device();
  const ExchangeArgs args = {store_.masters(), average(),
                             static_cast<int64_t>(store_.layout().size)};
  MILLRACE_RETURN_IF_ERROR(
      device.OnDevice([&] { return device.kernels().update->exchange(device.stream(), args); }));
  return store_.RefreshCompute();
}

absl::StatusOr<TensorSet> DeviceAverage::Export() const { return store_.Download(average()); }

}  // namespace millrace::trainer::cuda
