#ifndef MILLRACE_TESTS_TRAINER_BACKEND_FAKE_BACKEND_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_FAKE_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "trainer/backend/backend.h"

namespace millrace::trainer {

// Every valid row is right, with a loss of 1.
inline StepResult CountRows(const StepInput& input) {
  StepResult result;
  for (const uint8_t valid : input.valid) result.valid += valid != 0 ? 1 : 0;
  result.correct = result.valid;
  result.loss_sum = static_cast<double>(result.valid);
  return result;
}

// Calls of a test in the midst of a FakeBackend's life; any may be empty. They belong to one rank,
// whose thread alone sets and calls them.
struct FakeHooks {
  std::function<void()> opening;  // before the next one is made
  std::function<void()> step;     // in the next training step
  std::function<void()> closing;  // when the next one ends
};

// Computes no model: the gradient of a weight is the weight itself times the valid rows, the loss
// of each row is 1, and every row is correct. Each hook is called once. Where layers have sums over
// ranks, a training step has one.
class FakeBackend final : public Backend, public Network {
 public:
  // `hooks` outlives the factory and its backends.
  static BackendFactory Factory(FakeHooks& hooks) {
    return [&hooks](const Model& model, const TensorSet& weights, const TensorSet&,
                    std::vector<std::span<float>> gradients,
                    const BackendOptions& options) -> absl::StatusOr<std::unique_ptr<Backend>> {
      Call(hooks.opening);
      auto backend = std::make_unique<FakeBackend>(model, weights, std::move(gradients), hooks);
      backend->sum_over_ranks_ = options.sum_over_ranks;
      return backend;
    };
  }

  FakeBackend(const Model& model, const TensorSet& weights, std::vector<std::span<float>> gradients,
              FakeHooks& hooks)
      : weights_(weights),
        gradients_(std::move(gradients)),
        hooks_(hooks),
        statistics_(MakeInitialBuffers(model)) {}
  ~FakeBackend() override { Call(hooks_.closing); }

  absl::StatusOr<Network*> Compile(int64_t, NetworkUse use) override {
    use_ = use;
    return this;
  }
  absl::Status Forward(const StepInput& input) override {
    if (use_ == NetworkUse::kTraining) MILLRACE_RETURN_IF_ERROR(Step(input));
    result_ = CountRows(input);
    return absl::OkStatus();
  }
  absl::StatusOr<StepResult> Result() override { return result_; }
  absl::Status Backward(const GradientReady& ready) override {
    for (size_t i = gradients_.size(); i-- > 0;) {
      for (size_t k = 0; k < gradients_[i].size(); ++k) {
        gradients_[i][k] = weights_[i][k] * static_cast<float>(result_.valid);
      }
      MILLRACE_RETURN_IF_ERROR(ready(i));
    }
    return absl::OkStatus();
  }
  const TensorSet& statistics() const override { return statistics_; }
  absl::StatusOr<std::span<const float>> output(size_t) override {
    return std::span<const float>();
  }
  absl::Status SetOutputGradient(size_t, std::span<const float>) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::span<const float>> input_gradient(size_t) override {
    return std::span<const float>();
  }
  std::string FirstNonFinite() override { return ""; }
  std::string Describe() const override { return "fake"; }

 private:
  absl::Status Step(const StepInput& input) {
    Call(hooks_.step);
    double one = 1;
    return sum_over_ranks_ ? sum_over_ranks_(input.step, {&one, 1}) : absl::OkStatus();
  }
  static void Call(std::function<void()>& hook) {
    if (const auto call = std::exchange(hook, nullptr)) call();
  }

  const TensorSet& weights_;
  const std::vector<std::span<float>> gradients_;
  FakeHooks& hooks_;
  const TensorSet statistics_;
  SumOverRanksFunction sum_over_ranks_;
  NetworkUse use_ = NetworkUse::kTraining;  // of the last Compile
  StepResult result_;                       // of the last Forward
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_FAKE_BACKEND_H_
