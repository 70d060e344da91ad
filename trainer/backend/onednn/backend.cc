// The CPU backend: oneDNN 2.x primitives behind Backend. What the library throws becomes a status
// here and in network.cc.

#include "trainer/backend/backend.h"

#include <dnnl.hpp>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/backend/onednn/guarded.h"
#include "trainer/backend/onednn/network.h"
#include "trainer/train.h"

namespace millrace::trainer {
namespace {

std::string LibraryName() {
  const dnnl::version_t* version = dnnl::version();
  return absl::StrCat("oneDNN ", version->major, ".", version->minor, ".", version->patch);
}

// The vector instructions of this processor, for a set of instructions that this oneDNN's header
// does not know: a later library has more, and 999 for all.
std::string ProcessorFlags() {
  std::string flags;
  const auto add = [&flags](std::string_view name, bool is_supported) {
    if (is_supported) absl::StrAppend(&flags, flags.empty() ? "" : " ", ToAbsl(name));
  };
#if defined(__x86_64__)
  add("avx2", __builtin_cpu_supports("avx2"));
  add("avx512f", __builtin_cpu_supports("avx512f"));
  add("avx512_vnni", __builtin_cpu_supports("avx512vnni"));
  add("avx512_bf16", __builtin_cpu_supports("avx512bf16"));
#endif
  return flags.empty() ? "no vector instructions that are known here"
                       : absl::StrCat("a processor with ", flags);
}

std::string IsaName() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx512_core:
      return "AVX512_CORE";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "AVX512_CORE_VNNI";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "AVX512_CORE_BF16";
    default:
      return ProcessorFlags();
  }
}

class OneDnnBackend : public Backend {
 public:
  OneDnnBackend(const Model& model, const TensorSet& weights, const TensorSet& buffers,
                std::vector<std::span<float>> gradients, int threads)
      : model_(model),
        weights_(weights),
        buffers_(buffers),
        gradients_(std::move(gradients)),
        threads_(threads),
        engine_(dnnl::engine::kind::cpu, 0) {}

  absl::StatusOr<Network*> Compile(int64_t rows, NetworkUse use) override {
    return Guarded([&]() -> absl::StatusOr<Network*> { return NetworkOf(rows, use); });
  }
  std::string Describe() const override { return absl::StrCat(LibraryName(), ", ", IsaName()); }

 private:
  Network* NetworkOf(int64_t rows, NetworkUse use);

  const Model model_;
  const TensorSet& weights_;
  const TensorSet& buffers_;
  const std::vector<std::span<float>> gradients_;
  const int threads_;
  const dnnl::engine engine_;
  // Two or three in a job.
  std::map<std::pair<int64_t, NetworkUse>, std::unique_ptr<OneDnnNetwork>> networks_;
};

Network* OneDnnBackend::NetworkOf(int64_t rows, NetworkUse use) {
  std::unique_ptr<OneDnnNetwork>& network = networks_[{rows, use}];
  if (network == nullptr) {
    std::span<const std::span<float>> gradients;
    if (use == NetworkUse::kTraining) gradients = gradients_;
    network = std::make_unique<OneDnnNetwork>(NetworkTensors{model_, weights_, buffers_, gradients},
                                              rows, threads_, engine_);
  }
  return network.get();
}

absl::Status CheckTensors(const Model& model, const TensorSet& weights, const TensorSet& buffers,
                          const std::vector<std::span<float>>& gradients) {
  bool fits = weights.size() == model.parameters.size() && gradients.size() == weights.size();
  for (size_t i = 0; fits && i < weights.size(); ++i) {
    const auto elements = static_cast<size_t>(model.parameters[i].shape.num_elements());
    fits = weights[i].size() == elements && gradients[i].size() == elements;
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
                                                           int threads) {
  MILLRACE_RETURN_IF_ERROR(CheckTensors(model, weights, buffers, gradients));
  if (threads < 1) return absl::InvalidArgumentError("threads must be 1 or more");
  return Guarded([&]() -> absl::StatusOr<std::unique_ptr<Backend>> {
    return std::make_unique<OneDnnBackend>(model, weights, buffers, std::move(gradients), threads);
  });
}

std::vector<std::string> BackendNames() { return {LibraryName()}; }

}  // namespace millrace::trainer
