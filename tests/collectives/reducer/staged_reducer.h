#ifndef MILLRACE_TESTS_COLLECTIVES_REDUCER_STAGED_REDUCER_H_
#define MILLRACE_TESTS_COLLECTIVES_REDUCER_STAGED_REDUCER_H_

// A reducer of gradients on a device behind one of gradients on the host: so what is promised of
// all reducers, and checked in host memory, is checked on a GPU.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collectives/gradient_reducer.h"
#include "tests/collectives/cuda/gpu_memory.h"

namespace millrace::collectives {

class StagedReducer final : public GradientReducer {
 public:
  static absl::StatusOr<std::unique_ptr<GradientReducer>> Make(Communicator& communicator,
                                                               std::vector<GradientSpec> gradients,
                                                               const ReducerOptions& options) {
    std::vector<TensorView> views;
    for (const GradientSpec& gradient : gradients) {
      views.push_back({nullptr, gradient.dtype, gradient.shape});
    }
    MILLRACE_ASSIGN_OR_RETURN(auto device,
                              GradientReducer::Make(communicator, std::move(gradients), options));
    return std::unique_ptr<GradientReducer>(new StagedReducer(std::move(device), std::move(views)));
  }

  void Leave(const absl::Status& why) override { device_->Leave(why); }
  TensorView gradient(size_t i) override { return views_[i]; }
  void SetRows(int64_t rows) override { device_->SetRows(rows); }
  absl::Status MarkReady(size_t i) override {
    MILLRACE_RETURN_IF_ERROR(ToDevice(i));
    return device_->MarkReady(i);
  }
  absl::Status Finish() override {
    MILLRACE_RETURN_IF_ERROR(device_->Finish());
    return AllFromDevice();
  }
  const StepOutcome& outcome() const override { return device_->outcome(); }
  const std::vector<GradientShard>& shards() const override { return device_->shards(); }
  absl::Status GatherShards() override {
    for (size_t i = 0; i < views_.size(); ++i) MILLRACE_RETURN_IF_ERROR(ToDevice(i));
    MILLRACE_RETURN_IF_ERROR(device_->GatherShards());
    return AllFromDevice();
  }
  size_t num_buckets() const override { return device_->num_buckets(); }
  size_t bucket_of(size_t i) const override { return device_->bucket_of(i); }
  const ReducerCounters& counters() const override { return device_->counters(); }
  std::string Summary() const override { return device_->Summary(); }

 private:
  StagedReducer(std::unique_ptr<GradientReducer> device, std::vector<TensorView> views)
      : device_(std::move(device)), views_(std::move(views)) {
    for (TensorView& view : views_) {
      memory_.emplace_back(view.size_bytes());
      view.data = memory_.back().data();
    }
  }

  absl::Status ToDevice(size_t i) {
    return CopyToGpu(device_->gradient(i).data, views_[i].data, views_[i].size_bytes());
  }
  absl::Status AllFromDevice() {
    for (size_t i = 0; i < views_.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(
          CopyFromGpu(views_[i].data, device_->gradient(i).data, views_[i].size_bytes()));
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<GradientReducer> device_;
  std::vector<TensorView> views_;
  std::vector<std::vector<std::byte>> memory_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_REDUCER_STAGED_REDUCER_H_
