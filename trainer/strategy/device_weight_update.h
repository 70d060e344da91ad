#ifndef MILLRACE_TRAINER_STRATEGY_DEVICE_WEIGHT_UPDATE_H_
#define MILLRACE_TRAINER_STRATEGY_DEVICE_WEIGHT_UPDATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/gradient_reducer.h"
#include "collectives/progress.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/kernels/update.h"
#include "trainer/backend/cuda/parameter_store.h"
#include "trainer/model/model.h"
#include "trainer/optimizer/parameter_groups.h"
#include "trainer/optimizer/slots.h"
#include "trainer/optimizer/update_rule.h"
#include "trainer/strategy/device_norms.h"
#include "trainer/strategy/weight_update.h"

namespace millrace::trainer {

class OptimizerSpec;  // job.proto

struct DeviceUpdateOptions {
  collectives::Progress* progress = nullptr;  // outlives the update; null: none
  // The group for numbers of the host, if the pieces are those of this rank alone; outlives it.
  // Null: whole parameters.
  collectives::Communicator* communicator = nullptr;
};

// The update of weights in a device's memory: one kernel for each bucket. Its bits are those of
// HostWeightUpdate. Does not wait for the device, but for norms of shards.
class DeviceWeightUpdate final : public WeightUpdate {
 public:
  // `device` and `model` outlive it. `slots` are whole tensors; `store` says which pieces of them
  // are kept, and updated.
  //   RESOURCE_EXHAUSTED  no memory
  //   other               the device's error
  static absl::StatusOr<std::unique_ptr<WeightUpdate>> Make(
      cuda::Device& device, const Model& model, const OptimizerSpec& optimizer, const Slots& slots,
      cuda::StoreOptions store, const DeviceUpdateOptions& options);

  absl::Status Apply(collectives::GradientReducer& sums, const UpdateStep& update,
                     TensorSet& weights) override;
  std::vector<std::string> slot_names() const override { return store_->slot_names(); }
  absl::StatusOr<const Slots*> FetchSlots() override;
  absl::Status PutWeights(const TensorSet& weights,
                          collectives::GradientReducer& gradients) override;
  absl::Status PutSlot(size_t s, collectives::GradientReducer& gradients) override;
  absl::Status TakeWeights(collectives::GradientReducer& gradients, TensorSet& weights) override;
  absl::StatusOr<TensorSet> TakeTensors(collectives::GradientReducer& gradients) override;
  cuda::ParameterStore* store() override { return store_.get(); }

 private:
  DeviceWeightUpdate(cuda::Device& device, const Model& model, const OptimizerSpec& optimizer,
                     const DeviceUpdateOptions& options);
  // The tiles of this rank's pieces, by region: of those that are updated, or of those whose norms
  // are wanted.
  std::vector<std::vector<cuda::UpdateTile>> MakeTiles(bool of_norms) const;
  absl::Status MakeTables();
  // The memory of the gradient at the begin of a region.
  float* GradientOf(collectives::GradientReducer& gradients, size_t region) const;
  // Copies a piece of this rank's to the memory of its gradient.
  absl::Status Put(const Piece& piece, const float* from, collectives::GradientReducer& gradients);
  absl::Status FindNorms(collectives::GradientReducer& sums, int64_t step);
  // Copies the numbers of an update to the device, for each group. Returns those of the first one.
  absl::StatusOr<UpdateElement> SendNumbers(const UpdateStep& update, float scale);
  cuda::UpdateArgs ArgsOf(size_t region) const;

  cuda::Device& device_;
  const Model& model_;
  const DeviceUpdateOptions options_;
  const std::unique_ptr<UpdateRule> rule_;
  const std::vector<ParameterSettings> settings_;  // by parameter
  std::vector<ParameterSettings> groups_;          // that some parameter has
  std::vector<uint32_t> group_of_;                 // by parameter
  std::unique_ptr<cuda::ParameterStore> store_;
  std::unique_ptr<DeviceNorms> norms_;  // null: there are no trust ratios
  std::vector<size_t> first_tile_;      // of each region, and their number
  bool allows_vectors_ = true;          // true if all tiles begin at multiples of 4
  cuda::Memory tiles_;
  cuda::Memory elements_;  // of each group, of the running update
  Slots fetched_;

  // Page-locked copies of the groups' elements: one is filled while the device reads the other.
  struct Staging {
    cuda::Memory memory;
    std::unique_ptr<cuda::Mark> read;
  };
  std::array<Staging, 2> staging_;
  size_t turn_ = 0;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_DEVICE_WEIGHT_UPDATE_H_
