#include "trainer/backend/cuda/backend.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/backend/cuda/network.h"

namespace millrace::trainer::cuda {
namespace {

DType TypeOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return DType::kF32;
    case Precision::kFloat16:
      return DType::kF16;
    case Precision::kBFloat16:
    case Precision::kAuto:
      return DType::kBF16;
  }
  return DType::kF32;
}

class DeviceBackend final : public Backend {
 public:
  DeviceBackend(Device& device, const Model& model, const DeviceTensors& tensors,
                const BackendOptions& options, const NetworkOptions& more)
      : device_(device),
        model_(model),
        tensors_(tensors),
        options_(options),
        more_(more),
        products_(device, more.tuned, options.threads) {}

  absl::StatusOr<Network*> Compile(int64_t rows, NetworkUse use) override;
  std::string Describe() const override {
    const std::string precision =
        options_.tf32 ? "tf32" : std::string(Name(TypeOf(options_.precision)));
    const std::string plans = more_.tuned == nullptr ? "" : ", " + more_.tuned->Describe();
    return absl::StrCat(device_.Describe(), ", ", precision, more_.captures ? ", in graphs" : "",
                        plans);
  }

 private:
  bool has_gradients() const {
    return std::ranges::all_of(tensors_.parameters, [](const DeviceTensors::Parameter& parameter) {
      return parameter.gradient != nullptr;
    });
  }

  Device& device_;
  const Model model_;
  const DeviceTensors tensors_;
  const BackendOptions options_;
  const NetworkOptions more_;
  SharedProducts products_;
  // Two or three in a job.
  std::map<std::pair<int64_t, NetworkUse>, std::unique_ptr<DeviceNetwork>> networks_;
};

absl::StatusOr<Network*> DeviceBackend::Compile(int64_t rows, NetworkUse use) {
  if (IsTraining(use) && !has_gradients()) {
    return absl::FailedPreconditionError("this backend has no gradients, so it trains nothing");
  }
  const auto found = networks_.find({rows, use});
  if (found != networks_.end()) return found->second.get();
  const Compiled compiled{model_, rows, use, TypeOf(options_.precision), options_.fuses};
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<DeviceNetwork> network,
      DeviceNetwork::Make(device_, products_, compiled, tensors_, options_, more_));
  return (networks_[{rows, use}] = std::move(network)).get();
}

// True if there is a place for every tensor that a network reads.
bool Fits(const Model& model, const DeviceTensors& tensors) {
  return tensors.parameters.size() == model.parameters.size() &&
         tensors.buffers.size() == model.buffers.size() &&
         std::ranges::all_of(tensors.parameters, [](const DeviceTensors::Parameter& parameter) {
           return parameter.master != nullptr;
         });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeDeviceBackend(Device& device, const Model& model,
                                                           const DeviceTensors& tensors,
                                                           const BackendOptions& options,
                                                           const NetworkOptions& more) {
  if (!Fits(model, tensors)) {
    return absl::InvalidArgumentError("weights, buffers and gradients do not fit the model");
  }
  if (options.recomputes_activations) {
    return absl::UnimplementedError(
        "recompute_activations: a device keeps all values; leave the field out, or take fewer rows "
        "at a time");
  }
  return std::make_unique<DeviceBackend>(device, model, tensors, options, more);
}

}  // namespace millrace::trainer::cuda
