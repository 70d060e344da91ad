// The CPU backend: oneDNN 2.x primitives behind Backend. What the library throws becomes a status
// here and in network.cc.

#include "trainer/backend/backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <dnnl.hpp>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/backend/onednn/guarded.h"
#include "trainer/backend/onednn/isa.h"
#include "trainer/backend/onednn/network.h"
#include "trainer/backend/onednn/value_memory.h"
#include "trainer/train.h"

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

// The library's code for a convolution of bfloat16 ("brgconv:avx512_core_amx_bf16"); empty: it has
// none but for reference.
std::string HalfCode(const dnnl::engine& engine) {
  using dnnl::memory;
  const auto image = memory::desc({1, 64, 8, 8}, kHalf, memory::format_tag::nhwc);
  const memory::desc weights({64, 64, 3, 3}, kHalf, memory::format_tag::any);
  try {
    const dnnl::convolution_forward::primitive_desc forward({dnnl::prop_kind::forward_training,
                                                             dnnl::algorithm::convolution_direct,
                                                             image,
                                                             weights,
                                                             image,
                                                             {1, 1},
                                                             {1, 1},
                                                             {1, 1}},
                                                            engine);
    const std::string code = forward.impl_info_str();
    return code.starts_with("ref") ? "" : code;
  } catch (const dnnl::error&) {
    return "";
  }
}

// kAuto takes what `code`, of HalfCode, is good for.
Precision Resolved(Precision precision, const std::string& code) {
  if (precision != Precision::kAuto) return precision;
  const bool has_matrix_code = code.find("amx") != std::string::npos;
  return has_matrix_code ? Precision::kBFloat16 : Precision::kFloat32;
}

class OneDnnBackend : public Backend {
 public:
  OneDnnBackend(const Model& model, const TensorSet& weights, const TensorSet& buffers,
                std::vector<std::span<float>> gradients, const BackendOptions& options)
      : model_(model),
        weights_(weights),
        buffers_(buffers),
        gradients_(std::move(gradients)),
        options_(options),
        engine_(dnnl::engine::kind::cpu, 0) {}
  // Decides about the precision. Before all else.
  absl::Status ChoosePrecision();

  absl::StatusOr<Network*> Compile(int64_t rows, NetworkUse use) override {
    return Guarded([&] { return NetworkOf(rows, use); });
  }
  std::string Describe() const override {
    return absl::StrCat(LibraryName(), ", ",
                        IsaName(dnnl::get_effective_cpu_isa(), ProcessorFlags()), ", ", precision_,
                        options_.recomputes_activations ? ", activations recomputed" : "");
  }

 private:
  absl::StatusOr<Network*> NetworkOf(int64_t rows, NetworkUse use);

  const Model model_;
  const TensorSet& weights_;
  const TensorSet& buffers_;
  const std::vector<std::span<float>> gradients_;
  BackendOptions options_;
  std::string precision_;  // in words
  const dnnl::engine engine_;
  // Two or three in a job.
  std::map<std::pair<int64_t, NetworkUse>, std::unique_ptr<OneDnnNetwork>> networks_;
};

absl::Status OneDnnBackend::ChoosePrecision() {
  if (options_.precision == Precision::kFloat16) {
    return absl::InvalidArgumentError("precision: \"float16\" is for GPUs, not for the CPU");
  }
  const std::string code = HalfCode(engine_);
  const bool is_auto = options_.precision == Precision::kAuto;
  options_.precision = Resolved(options_.precision, code);
  if (options_.precision == Precision::kFloat32) {
    precision_ = is_auto ? "float32 (auto: no AMX for bfloat16)" : "float32";
    return absl::OkStatus();
  }
  precision_ = absl::StrCat("bfloat16 (", is_auto ? "auto: " : "", code, ")");
  if (!code.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "precision: \"bfloat16\" needs AVX-512, which this processor does not have");
}

absl::StatusOr<Network*> OneDnnBackend::NetworkOf(int64_t rows, NetworkUse use) {
  if (IsTraining(use) && gradients_.empty()) {
    return absl::FailedPreconditionError("this backend has no gradients, so it trains nothing");
  }
  std::unique_ptr<OneDnnNetwork>& network = networks_[{rows, use}];
  if (network == nullptr) {
    MILLRACE_RETURN_IF_ERROR(CheckRoom(options_.threads));
    std::span<const std::span<float>> gradients;
    if (IsTraining(use)) gradients = gradients_;
    network = std::make_unique<OneDnnNetwork>(NetworkTensors{model_, weights_, buffers_, gradients},
                                              rows, use, options_, engine_);
  }
  return network.get();
}

absl::Status CheckTensors(const Model& model, const TensorSet& weights, const TensorSet& buffers,
                          const std::vector<std::span<float>>& gradients) {
  bool fits = weights.size() == model.parameters.size() &&
              (gradients.empty() || gradients.size() == weights.size());
  for (size_t i = 0; fits && i < weights.size(); ++i) {
    const auto elements = static_cast<size_t>(model.parameters[i].shape.num_elements());
    fits = weights[i].size() == elements && (gradients.empty() || gradients[i].size() == elements);
  }
  fits = fits && buffers.size() == model.buffers.size();
  for (size_t i = 0; fits && i < buffers.size(); ++i) {
    fits = static_cast<int64_t>(buffers[i].size()) == model.buffers[i].shape.num_elements();
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError("weights, buffers and gradients do not fit the model");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeOneDnnBackend(const Model& model,
                                                           const TensorSet& weights,
                                                           const TensorSet& buffers,
                                                           std::vector<std::span<float>> gradients,
                                                           const BackendOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckTensors(model, weights, buffers, gradients));
  if (options.threads < 1) return absl::InvalidArgumentError("threads must be 1 or more");
  return Guarded([&]() -> absl::StatusOr<std::unique_ptr<Backend>> {
    auto backend =
        std::make_unique<OneDnnBackend>(model, weights, buffers, std::move(gradients), options);
    MILLRACE_RETURN_IF_ERROR(backend->ChoosePrecision());
    return backend;
  });
}

absl::StatusOr<ActivationMemory> OneDnnActivationMemory(const Model& model, int64_t rows,
                                                        NetworkUse use, BackendOptions options) {
  return Guarded([&]() -> absl::StatusOr<ActivationMemory> {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    options.precision = Resolved(options.precision, HalfCode(engine));
    const ArenaPlan plan = ValueMemory(model, rows, use, options, engine).plan();
    return ActivationMemory{plan.bytes, plan.live_bytes};
  });
}

std::vector<std::string> BackendNames() { return {LibraryName()}; }

}  // namespace millrace::trainer
