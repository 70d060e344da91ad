#ifndef MILLRACE_TESTS_TRAINER_BACKEND_TESTED_BACKEND_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_TESTED_BACKEND_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/backend/backend.h"

// Backends of all kinds, as the conformance tests see them.

namespace millrace::trainer {

// A backend of a model, with the tensors that it reads and writes.
class TestedBackend {
 public:
  virtual ~TestedBackend() = default;

  virtual Backend& backend() = 0;
  // Replaces the weights of all steps from now on.
  virtual void SetWeights(const TensorSet& weights) = 0;
  // The gradients of the last Backward, in the model's order.
  virtual TensorSet Gradients() = 0;
};

// Makes a backend of a model that outlives it.
using TestedBackendFactory = std::function<absl::StatusOr<std::unique_ptr<TestedBackend>>(
    const Model& model, const TensorSet& weights, const TensorSet& buffers,
    const BackendOptions& options)>;

// A kind of backend.
struct BackendCase {
  std::string name;
  TestedBackendFactory make;
  bool recomputes = false;  // true if it can recompute activations
};

inline std::ostream& operator<<(std::ostream& out, const BackendCase& kind) {
  return out << kind.name;
}

class TestedOneDnn final : public TestedBackend {
 public:
  static absl::StatusOr<std::unique_ptr<TestedBackend>> Make(const Model& model,
                                                             const TensorSet& weights,
                                                             const TensorSet& buffers,
                                                             const BackendOptions& options) {
    std::unique_ptr<TestedOneDnn> tested(new TestedOneDnn(model, weights, buffers));
    MILLRACE_ASSIGN_OR_RETURN(tested->backend_,
                              MakeOneDnnBackend(model, tested->weights_, tested->buffers_,
                                                Spans(tested->gradients_), options));
    return tested;
  }

  Backend& backend() override { return *backend_; }
  void SetWeights(const TensorSet& weights) override { weights_ = weights; }
  TensorSet Gradients() override { return gradients_; }

 private:
  TestedOneDnn(const Model& model, TensorSet weights, TensorSet buffers)
      : weights_(std::move(weights)), buffers_(std::move(buffers)), gradients_(MakeZeros(model)) {}

  TensorSet weights_;
  const TensorSet buffers_;
  TensorSet gradients_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_TESTED_BACKEND_H_
