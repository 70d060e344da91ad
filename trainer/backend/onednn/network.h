#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_NETWORK_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_NETWORK_H_

#include <dnnl.hpp>
#include <span>
#include <string>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/backend/onednn/layer_compiler.h"
#include "trainer/backend/onednn/operations.h"
#include "trainer/backend/onednn/value_memory.h"

namespace millrace::trainer {

// A model as oneDNN primitives for one number of rows.
class OneDnnNetwork final : public Network {
 public:
  // The tensors outlive it. May throw dnnl::error.
  OneDnnNetwork(const NetworkTensors& tensors, int64_t rows, NetworkUse use,
                const BackendOptions& options, const dnnl::engine& engine);

  absl::Status Forward(const StepInput& input) override;
  absl::StatusOr<StepResult> Result() override { return result_; }
  absl::Status Backward(const GradientReady& ready) override;
  const TensorSet& statistics() const override { return statistics_; }
  absl::StatusOr<std::span<const float>> output(size_t i) override { return outputs_[i]; }
  absl::Status SetOutputGradient(size_t i, std::span<const float> values) override;
  absl::StatusOr<std::span<const float>> input_gradient(size_t i) override {
    return input_gradients_[i];
  }
  std::string FirstNonFinite() override;

  // The layers whose primitives have only the library's reference code, which is slow: "conv1".
  std::vector<std::string> LayersWithReferenceCode() const;

 private:
  absl::Status DoForward(const StepInput& input);
  absl::Status DoBackward(const GradientReady& ready);
  absl::Status RunLayerBackward(size_t i, const GradientReady& ready);
  absl::Status Report(int parameter, const GradientReady& ready);
  absl::Status RunAlone(const OperationList& operations);
  void SetInput(size_t i) const;
  absl::StatusOr<std::string> FindNonFinite() const;
  StepResult ComputeLosses(const StepInput& input);
  StepResult ComputeLoss(size_t i, const StepInput& input);
  void ReadOutputs();
  void BeginBackward();
  void EndBackward();

  const Model& model_;
  const NetworkUse use_;
  const int threads_;
  dnnl::stream stream_;
  ValueMemory values_;
  TensorSet statistics_;
  // Of the last Forward and Backward, by loss and by input.
  std::vector<std::vector<float>> outputs_;
  std::vector<std::vector<float>> output_gradients_;
  std::vector<std::vector<float>> input_gradients_;
  StepInput step_;                                     // of the last Forward
  StepResult result_;                                  // of the last Forward
  const std::span<const std::span<float>> gradients_;  // of the parameters
  std::vector<CompiledLayer> layers_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_NETWORK_H_
