#ifndef MILLRACE_TRAINER_BACKEND_CUDA_NETWORK_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_NETWORK_H_

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/host_values.h"
#include "trainer/backend/cuda/network_options.h"
#include "trainer/backend/cuda/network_parts.h"
#include "trainer/backend/cuda/operations.h"
#include "trainer/backend/cuda/tensors.h"

namespace millrace::trainer::cuda {

// A model as a device's work for one number of rows. Calls give the device work and do not wait for
// it, but those that return numbers, and the sums over ranks of batch norms.
class DeviceNetwork final : public Network {
 public:
  // The device, its products, the model and the tensors outlive it.
  //   RESOURCE_EXHAUSTED  no memory; the text says how much is needed for what
  //   UNIMPLEMENTED       the device has no code for a layer; the text names it
  //   other               the device's
  static absl::StatusOr<std::unique_ptr<DeviceNetwork>> Make(
      Device& device, SharedProducts& products, const Compiled& compiled,
      const DeviceTensors& tensors, const BackendOptions& options, const NetworkOptions& more = {});

  absl::Status Forward(const StepInput& input) override;
  absl::StatusOr<StepResult> Result() override;
  absl::Status Backward(const GradientReady& ready) override;
  const TensorSet& statistics() const override { return statistics_; }
  absl::StatusOr<std::span<const float>> output(size_t i) override;
  absl::Status SetOutputGradient(size_t i, std::span<const float> values) override;
  absl::StatusOr<std::span<const float>> input_gradient(size_t i) override;
  std::string FirstNonFinite() override;

  const Program& program() const { return program_; }
  // Bytes of the device's memory that are its own.
  size_t device_bytes() const { return parts_->buffers.arena_bytes(); }

 private:
  // Segments that run one after another, and a graph of them for each kind of step, which is all
  // that it depends on: what else differs between steps is in the device's memory, or outside of
  // the segments that are captured. Only the last may have an exchange.
  struct Runnable {
    std::vector<const Segment*> segments;
    std::array<bool, 3> has_run{};
    std::array<std::unique_ptr<Graph>, 3> graphs;
  };

  explicit DeviceNetwork(std::unique_ptr<NetworkParts> parts, const NetworkOptions& more);

  // For Make.
  absl::Status Allocate();
  // Puts segments together that are captured together.
  std::vector<Runnable> Group(const std::vector<Segment>& segments) const;
  // True if a graph ends behind the segment.
  bool EndsGraph(const Segment& segment) const;
  absl::Status AllocateHost();
  absl::Status WriteScales();

  absl::Status DoForward(const StepInput& input);
  absl::Status DoBackward(const GradientReady& ready);
  absl::Status WriteBatch();
  absl::Status Run(Runnable& runnable, When most);
  // Gives the device the operations that run in such a step.
  absl::Status RunOperations(const Segment& segment, When most);
  absl::Status RunOperations(const Runnable& runnable, When most);
  // Makes the graphs of a pass that has run once.
  absl::Status CaptureAll(std::vector<Runnable>& pass, When most);
  absl::Status Capture(Runnable& runnable, When most);
  // Says that the segment's gradients are ready.
  static absl::Status Report(const Segment& segment, const GradientReady& ready);
  // Replaces sums of this rank by those of all.
  absl::Status Exchange(const RankSums& sums);
  absl::Status WriteOutputGradients();
  // The values of a tensor, as far as they count. Waits.
  absl::StatusOr<std::vector<float>> Fetch(const Tensor& tensor, const Channels& channels);
  // Those of a tensor of `value`, without the channels that are padding. Waits.
  absl::StatusOr<std::vector<float>> FetchValue(const Tensor& tensor, int value);
  absl::Status FetchInputGradient(size_t i);
  absl::StatusOr<std::string> FindNonFinite();
  absl::StatusOr<bool> HasNonFinite(int value);
  absl::StatusOr<std::string> FindIn(const Segment& segment);

  Device& device() { return parts_->device; }
  const Model& model() const { return parts_->compiled.model; }

  const std::unique_ptr<NetworkParts> parts_;
  const NetworkOptions more_;
  Memory arena_;
  Program program_;
  std::vector<Runnable> forward_;
  std::vector<Runnable> backward_;
  std::unique_ptr<Mark> batch_copied_;
  std::unique_ptr<Mark> results_copied_;
  std::unique_ptr<Mark> sums_copied_;
  Memory sums_;  // of a norm, in page-locked memory
  TensorSet statistics_;
  // Of the last Forward, by loss or input of the model.
  std::vector<std::optional<std::vector<float>>> outputs_;
  std::vector<std::optional<std::vector<std::byte>>> given_;  // gradients of outputs
  std::vector<std::optional<std::vector<float>>> input_gradients_;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_NETWORK_H_
