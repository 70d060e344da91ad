#ifndef MILLRACE_TRAINER_BACKEND_BACKEND_H_
#define MILLRACE_TRAINER_BACKEND_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/record_error.h"
#include "base/run.h"
#include "base/tensor.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"

namespace millrace::trainer {

// The input of one step of one rank. All fields borrow.
struct StepInput {
  std::vector<ConstTensorView> inputs;  // for each input of the model: [rows, ...shape]
  // For each loss; Loss::Accepts says which. Empty in a prediction, which computes no losses. One
  // of a given gradient is not read.
  std::vector<ConstTensorView> targets;
  // Where the inputs and the targets lie in the memory of the backend's device too; null: nowhere.
  // Work that is given to the device from now on may read them. Empty: nowhere.
  std::vector<const void*> device_inputs;
  std::vector<const void*> device_targets;
  std::span<const uint8_t> valid;  // one byte per row; 0: padding, which counts for nothing
  int64_t global_valid_rows = 0;   // over all ranks: the divisor of the loss
  double loss_scale = 1;           // factor of the gradients between layers; a power of two
  std::span<const SampleId> ids;   // the samples in the rows; empty: 0, 1, ...
  // Keys of the random numbers of a training step, beside the sample's id.
  uint64_t seed = 0;
  uint64_t step = 0;
  // Where a row's sample lies, for messages; may be empty.
  std::function<RecordError(const SampleId& id)> locate;
};

// Sums over the valid rows of this rank.
struct StepResult {
  double loss_sum = 0;  // of all losses, by weight

  // Of the first loss.
  int64_t correct = 0;   // the largest logit is the label's (the first of equals); or all values
                         // are on the target's side
  int64_t in_top5 = 0;   // the label's logit is one of the five largest
  double error_sum = 0;  // mean of |output - target|
  int64_t valid = 0;
};

// A model that was compiled for a number of rows. Thread-compatible.
class Network {
 public:
  // Says that the gradient of parameter `i` is in its memory.
  using GradientReady = std::function<absl::Status(size_t i)>;

  virtual ~Network() = default;

  // Begins to run the layers and the losses. What `input` borrows stays as it is until Result, and
  // in training until the last Backward.
  //   INVALID_ARGUMENT  the input does not fit the model, or a label is no class (RecordError says
  //                     which record)
  //   INTERNAL          the compute library failed (its words are in the message)
  //   other             that of BackendOptions::sum_over_ranks
  virtual absl::Status Forward(const StepInput& input) = 0;
  // Waits for the last Forward, and returns its results. INTERNAL: as Forward.
  virtual absl::StatusOr<StepResult> Result() = 0;

  // Runs the layers backward after a Forward, from the gradients of its losses or those that were
  // set since. Each gradient of (loss sum / global_valid_rows) is written to the memory that the
  // backend was made with, and reported as soon as it is there, or will be there for work that is
  // given to the device later, in the reverse order of the parameters. If `ready` is empty, the
  // gradients of the inputs alone are wanted, and those of the parameters become undefined. May be
  // called again. REQUIRES: the network is compiled for training.
  //   INTERNAL  the compute library failed
  //   other     what `ready` or sum_over_ranks returned; the step ends there
  virtual absl::Status Backward(const GradientReady& ready) = 0;

  // The statistics of the valid rows of the last Result, one tensor for each buffer of the model.
  // REQUIRES: the network is compiled for training.
  virtual const TensorSet& statistics() const = 0;

  // The value that loss `i` of the model reads, of the last Forward: its rows one after the other.
  // Waits for it; it lives until the next Forward. INTERNAL: as Forward.
  virtual absl::StatusOr<std::span<const float>> output(size_t i) = 0;
  // Sets the gradient of output(i), in place of that of its loss, for Backward until the next
  // Forward. `values` are copied. REQUIRES: the network is compiled for training.
  virtual absl::Status SetOutputGradient(size_t i, std::span<const float> values) = 0;
  // The gradient of input `i` of the model, of float32, from the last Backward: times loss_scale.
  // Waits for it; it lives until the next Backward. REQUIRES: the network is compiled for
  // kInputGradients. INTERNAL: as Backward.
  virtual absl::StatusOr<std::span<const float>> input_gradient(size_t i) = 0;

  // The name of the first layer whose result in the last Forward has values that are infinite or
  // NaN, to explain a loss that is; empty: there is none. The step's inputs must still be there,
  // and the weights be the same. Waits for no other rank.
  virtual std::string FirstNonFinite() = 0;
};

enum class NetworkUse {
  kTraining,
  kInputGradients,  // as kTraining, but Backward also computes the gradients of the inputs
  kEvaluation,
  kPrediction,  // as kEvaluation, but there are no targets
};

// True if the network has a backward pass.
constexpr bool IsTraining(NetworkUse use) {
  return use == NetworkUse::kTraining || use == NetworkUse::kInputGradients;
}

// Compiles a model and holds what its networks share. Thread-compatible.
class Backend {
 public:
  virtual ~Backend() = default;

  // The network for batches of `rows` >= 1 rows, made at the first call; it lives as long as the
  // backend.
  //   RESOURCE_EXHAUSTED, INTERNAL  there is no memory, or the compute library failed
  //   FAILED_PRECONDITION           the use is training, and the backend has no gradients
  virtual absl::StatusOr<Network*> Compile(int64_t rows, NetworkUse use) = 0;

  // "oneDNN 2.6.3, AVX512_CORE": library and instruction set.
  virtual std::string Describe() const = 0;
};

enum class Precision {
  kFloat32,
  kBFloat16,  // products and what is between layers; weights, sums, statistics and losses: float32
  kFloat16,   // as kBFloat16; not on the CPU
  kAuto,      // kBFloat16 where the processor has matrix instructions for it
};

// Replaces each of `values` by its sum over all ranks, with the same bits on every rank. In `step`
// every rank calls it equally often, with as many values. Other outcomes than OK end the step.
using SumOverRanksFunction = std::function<absl::Status(uint64_t step, std::span<double> values)>;

// How a backend computes.
struct BackendOptions {
  BackendOptions(int threads_in) : threads(threads_in) {}  // all else by default

  int threads = 1;  // a fixed number of them gives the same bits for the same inputs
  Precision precision = Precision::kFloat32;
  bool tf32 = false;  // true if products of float32 may be rounded to TF32, on devices that have it
  // Performance only. True if the backward pass computes again most values between layers, so that
  // they need less memory.
  bool recomputes_activations = false;
  bool fuses = true;  // false, for tests: every layer is computed by itself
  // For training, of synchronized batch norms. Empty: this rank is the only one.
  SumOverRanksFunction sum_over_ranks;
};

// Makes a backend of `model` that reads `weights` at every step, `buffers` at every evaluation, and
// writes `gradients`: one tensor for each parameter or buffer, which outlive the backend. Without
// gradients it trains nothing.
//   INVALID_ARGUMENT    the tensors do not fit the model; there is no thread; the processor has no
//                       instructions for the precision
//   RESOURCE_EXHAUSTED  no memory
//   INTERNAL            the compute library failed (its words are in the message)
using BackendFactory = std::function<absl::StatusOr<std::unique_ptr<Backend>>(
    const Model& model, const TensorSet& weights, const TensorSet& buffers,
    std::vector<std::span<float>> gradients, const BackendOptions& options)>;

// The CPU backend, over oneDNN.
absl::StatusOr<std::unique_ptr<Backend>> MakeOneDnnBackend(const Model& model,
                                                           const TensorSet& weights,
                                                           const TensorSet& buffers,
                                                           std::vector<std::span<float>> gradients,
                                                           const BackendOptions& options);

// The memory of a network's values between layers, and of their gradients.
struct ActivationMemory {
  size_t bytes = 0;       // as they are placed
  size_t live_bytes = 0;  // the most that are needed at a time
};

// The memory that a network of the CPU backend takes, without making one. Of precisions that the
// processor does not have too.
//   INTERNAL  the compute library failed (its words are in the message)
absl::StatusOr<ActivationMemory> OneDnnActivationMemory(const Model& model, int64_t rows,
                                                        NetworkUse use, BackendOptions options);

// For each layer of `model`, the layer of which the CPU backend makes one pass with it; -1: it
// works for itself.
std::vector<int> OneDnnFusedInto(const Model& model);

// Checks `input` against `model`, as every network does first. In a prediction there are no
// targets.
absl::Status CheckStepInput(const Model& model, const StepInput& input,
                            NetworkUse use = NetworkUse::kTraining);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_BACKEND_H_
