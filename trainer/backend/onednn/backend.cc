// The CPU backend: oneDNN 2.x primitives behind Backend. This file is the border to the library:
// what it throws becomes a status here.

#include "trainer/backend/backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <dnnl.hpp>
#include <map>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/backend/loss.h"
#include "trainer/backend/onednn/isa.h"
#include "trainer/backend/onednn/layers.h"
#include "trainer/train.h"

// oneDNN's threads are libgomp's; its header belongs to the compiler, so the one function is
// declared here. The setting counts for the calling thread.
extern "C" void omp_set_num_threads(int threads);

namespace millrace::trainer {
namespace {

std::string LibraryName() {
  const dnnl::version_t* version = dnnl::version();
  return absl::StrCat("oneDNN ", version->major, ".", version->minor, ".", version->patch);
}

// oneDNN does not look whether it was given memory for the code that it makes, and libgomp ends the
// process where it gets no thread: so there has to be room for both before either begins.
absl::Status CheckRoom(int threads) {
  constexpr size_t kCodeBytes = size_t{32} << 20;
  constexpr size_t kThreadBytes = size_t{9} << 20;  // a stack and what lies around it
  const size_t bytes = kCodeBytes + static_cast<size_t>(std::max(threads, 1)) * kThreadBytes;
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the model's code and ", threads, " threads: ", bytes, " B"));
  }
  ::munmap(room, bytes);
  return absl::OkStatus();
}

// Runs `body`; an exception becomes a status.
template <typename Body>
auto Guarded(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    return absl::InternalError(
        absl::StrCat("oneDNN: ", error.what(), " (status ", static_cast<int>(error.status), ")"));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory in the model's tensors");
  }
}

class OneDnnBackend : public Backend {
 public:
  OneDnnBackend(const Model& model, const TensorSet& weights,
                std::vector<std::span<float>> gradients, int threads)
      : model_(model),
        weights_(weights),
        gradients_(std::move(gradients)),
        threads_(threads),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_) {}

  absl::StatusOr<StepResult> TrainStep(const StepInput& input,
                                       const GradientReady& ready) override {
    return Guarded([&] { return DoTrainStep(input, ready); });
  }
  absl::StatusOr<StepResult> Evaluate(const StepInput& input) override {
    return Guarded([&] { return DoEvaluate(input); });
  }
  std::string Describe() const override {
    return absl::StrCat(LibraryName(), ", ",
                        IsaName(dnnl::get_effective_cpu_isa(), ProcessorFlags()));
  }

 private:
  // Primitives are made once per number of rows: two or three of them in a job.
  using Nets = std::map<int64_t, CompiledNet>;
  absl::StatusOr<CompiledNet*> Net(Nets& nets, int64_t rows,
                                   std::span<const std::span<float>> gradients);
  absl::StatusOr<StepResult> DoTrainStep(const StepInput& input, const GradientReady& ready);
  absl::StatusOr<StepResult> DoEvaluate(const StepInput& input);
  absl::Status Backward(const CompiledNet& net, const GradientReady& ready);

  const Model model_;
  const TensorSet& weights_;
  const std::vector<std::span<float>> gradients_;
  const int threads_;
  const dnnl::engine engine_;
  dnnl::stream stream_;
  Nets training_;
  Nets evaluation_;
};

absl::StatusOr<CompiledNet*> OneDnnBackend::Net(Nets& nets, int64_t rows,
                                                std::span<const std::span<float>> gradients) {
  omp_set_num_threads(threads_);
  const auto found = nets.find(rows);
  if (found != nets.end()) return &found->second;
  MILLRACE_RETURN_IF_ERROR(CheckRoom(threads_));
  return &nets.emplace(std::piecewise_construct, std::forward_as_tuple(rows),
                       std::forward_as_tuple(model_, weights_, gradients, rows, engine_))
              .first->second;
}

absl::StatusOr<StepResult> OneDnnBackend::DoEvaluate(const StepInput& input) {
  MILLRACE_RETURN_IF_ERROR(CheckStepInput(model_, input));
  MILLRACE_ASSIGN_OR_RETURN(CompiledNet* const net,
                            Net(evaluation_, static_cast<int64_t>(input.valid.size()), {}));
  net->Forward(static_cast<const float*>(input.images.data), stream_);
  return SoftmaxCrossEntropyLoss(net->logits(), model_.num_classes, input, {});
}

absl::StatusOr<StepResult> OneDnnBackend::DoTrainStep(const StepInput& input,
                                                      const GradientReady& ready) {
  MILLRACE_RETURN_IF_ERROR(CheckStepInput(model_, input));
  MILLRACE_ASSIGN_OR_RETURN(CompiledNet* const net,
                            Net(training_, static_cast<int64_t>(input.valid.size()), gradients_));
  net->Forward(static_cast<const float*>(input.images.data), stream_);
  const StepResult result =
      SoftmaxCrossEntropyLoss(net->logits(), model_.num_classes, input, net->logits_gradient());
  MILLRACE_RETURN_IF_ERROR(Backward(*net, ready));
  return result;
}

absl::Status OneDnnBackend::Backward(const CompiledNet& net, const GradientReady& ready) {
  for (size_t i = model_.layers.size(); i-- > 0;) {
    const Layer& layer = model_.layers[i];
    const CompiledLayer& compiled = net.layers()[i];
    compiled.gradients.Run(stream_);
    stream_.wait();
    if (layer.weights >= 0) {
      MILLRACE_RETURN_IF_ERROR(ready(layer.bias));
      MILLRACE_RETURN_IF_ERROR(ready(layer.weights));
    }
    compiled.data.Run(stream_);
  }
  stream_.wait();
  return absl::OkStatus();
}

absl::Status CheckTensors(const Model& model, const TensorSet& weights,
                          const std::vector<std::span<float>>& gradients) {
  bool fits = weights.size() == model.parameters.size() && gradients.size() == weights.size();
  for (size_t i = 0; fits && i < weights.size(); ++i) {
    const auto elements = static_cast<size_t>(model.parameters[i].shape.num_elements());
    fits = weights[i].size() == elements && gradients[i].size() == elements;
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError("weights and gradients do not fit the model");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeOneDnnBackend(const Model& model,
                                                           const TensorSet& weights,
                                                           std::vector<std::span<float>> gradients,
                                                           int threads) {
  MILLRACE_RETURN_IF_ERROR(CheckTensors(model, weights, gradients));
  if (threads < 1) return absl::InvalidArgumentError("threads must be 1 or more");
  return Guarded([&]() -> absl::StatusOr<std::unique_ptr<Backend>> {
    return std::make_unique<OneDnnBackend>(model, weights, std::move(gradients), threads);
  });
}

std::vector<std::string> BackendNames() { return {LibraryName()}; }

}  // namespace millrace::trainer
