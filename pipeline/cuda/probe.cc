#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/status.h"
#include "pipeline/cuda/driver.h"
#include "pipeline/cuda/primary_context.h"
#include "pipeline/cuda_probe.h"

namespace millrace::pipeline {
namespace {

using cuda::CurrentContext;
using cuda::Driver;
using cuda::PrimaryContext;
using cuda::ToStatus;

constexpr int kMaxNameBytes = 256;
constexpr int kMaxAddressBytes = 32;

absl::StatusOr<int> AttributeOf(const Driver& driver, cuda::DeviceHandle device,
                                cuda::DeviceAttribute attribute) {
  int value = 0;
  MILLRACE_RETURN_IF_ERROR(ToStatus(driver, driver.device_get_attribute(&value, attribute, device),
                                    "cuDeviceGetAttribute"));
  return value;
}

absl::StatusOr<cuda::DeviceHandle> HandleOf(const Driver& driver, int ordinal) {
  cuda::DeviceHandle device = 0;
  MILLRACE_RETURN_IF_ERROR(ToStatus(driver, driver.device_get(&device, ordinal), "cuDeviceGet"));
  return device;
}

// The driver's letters are upper case, the system's lower.
absl::StatusOr<std::string> PciAddressOf(const Driver& driver, cuda::DeviceHandle device) {
  std::array<char, kMaxAddressBytes> address = {};
  MILLRACE_RETURN_IF_ERROR(
      ToStatus(driver, driver.device_get_pci_bus_id(address.data(), kMaxAddressBytes - 1, device),
               "cuDeviceGetPCIBusId"));
  std::string text = address.data();
  std::ranges::transform(text, text.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return text;
}

// Everything of it is given back in the reverse order. That fails only when the device is lost, and
// nothing is left to do then.
class Copier final : public CudaCopier {
 public:
  Copier(std::shared_ptr<const PrimaryContext> context, size_t bytes)
      : context_(std::move(context)), driver_(context_->driver()), bytes_(bytes) {}
  ~Copier() override {
    const CurrentContext current(*context_);
    if (stream_ != nullptr) static_cast<void>(driver_.stream_destroy(stream_));
    if (host_ != nullptr) static_cast<void>(driver_.mem_free_host(host_));
    if (memory_ != 0) static_cast<void>(driver_.mem_free(memory_));
  }
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  absl::Status Allocate() {
    MILLRACE_RETURN_IF_ERROR(Call("cuMemAlloc", driver_.mem_alloc, &memory_, bytes_));
    MILLRACE_RETURN_IF_ERROR(Call("cuMemHostAlloc", driver_.mem_host_alloc, &host_, bytes_,
                                  cuda::kMemHostAllocPortable));
    return Call("cuStreamCreate", driver_.stream_create, &stream_, cuda::kStreamNonBlocking);
  }

  std::span<std::byte> host() override { return {static_cast<std::byte*>(host_), bytes_}; }
  absl::Status BeginToDevice() override {
    return Call("cuMemcpyHtoDAsync", driver_.memcpy_htod_async, memory_,
                static_cast<const void*>(host_), bytes_, stream_);
  }
  absl::Status BeginToHost() override {
    return Call("cuMemcpyDtoHAsync", driver_.memcpy_dtoh_async, host_, memory_, bytes_, stream_);
  }
  absl::Status BeginToPeer(CudaCopier& peer) override {
    const auto& to = static_cast<const Copier&>(peer);
    return Call("cuMemcpyPeerAsync", driver_.memcpy_peer_async, to.memory_, to.context_->handle(),
                memory_, context_->handle(), std::min(bytes_, to.bytes_), stream_);
  }
  absl::Status AllowPeer(CudaCopier& peer) override {
    return Call("cuCtxEnablePeerAccess", driver_.ctx_enable_peer_access,
                static_cast<const Copier&>(peer).context_->handle(), 0U);
  }
  absl::Status Wait() override {
    return Call("cuStreamSynchronize", driver_.stream_synchronize, stream_);
  }

 private:
  template <typename... Parameters, typename... Arguments>
  absl::Status Call(std::string_view name, cuda::Result (*function)(Parameters...),
                    Arguments... arguments) const {
    const CurrentContext current(*context_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    return ToStatus(driver_, function(arguments...), name);
  }

  const std::shared_ptr<const PrimaryContext> context_;
  const Driver& driver_;
  const size_t bytes_;
  cuda::Address memory_ = 0;
  void* host_ = nullptr;
  cuda::StreamHandle stream_ = nullptr;
};

}  // namespace

absl::StatusOr<CudaDriverFacts> LoadCudaDriver() {
  MILLRACE_ASSIGN_OR_RETURN(const auto driver, cuda::ProcessDriver());
  CudaDriverFacts facts{.library = driver->library, .version = driver->version};
  MILLRACE_RETURN_IF_ERROR(
      ToStatus(*driver, driver->device_get_count(&facts.num_devices), "cuDeviceGetCount"));
  return facts;
}

absl::StatusOr<CudaDeviceFacts> CudaDeviceFactsOf(int ordinal) {
  MILLRACE_ASSIGN_OR_RETURN(const auto driver, cuda::ProcessDriver());
  MILLRACE_ASSIGN_OR_RETURN(const cuda::DeviceHandle device, HandleOf(*driver, ordinal));
  CudaDeviceFacts facts;
  std::array<char, kMaxNameBytes> name = {};
  MILLRACE_RETURN_IF_ERROR(ToStatus(
      *driver, driver->device_get_name(name.data(), kMaxNameBytes - 1, device), "cuDeviceGetName"));
  facts.name = name.data();
  size_t bytes = 0;
  MILLRACE_RETURN_IF_ERROR(
      ToStatus(*driver, driver->device_total_mem(&bytes, device), "cuDeviceTotalMem"));
  facts.memory_bytes = bytes;
  MILLRACE_ASSIGN_OR_RETURN(
      const int major,
      AttributeOf(*driver, device, cuda::DeviceAttribute::kComputeCapabilityMajor));
  MILLRACE_ASSIGN_OR_RETURN(
      const int minor,
      AttributeOf(*driver, device, cuda::DeviceAttribute::kComputeCapabilityMinor));
  facts.capability = 10 * major + minor;
  MILLRACE_ASSIGN_OR_RETURN(facts.pci_address, PciAddressOf(*driver, device));
  return facts;
}

absl::StatusOr<bool> CudaPeersAreDirect(int from, int to) {
  MILLRACE_ASSIGN_OR_RETURN(const auto driver, cuda::ProcessDriver());
  MILLRACE_ASSIGN_OR_RETURN(const cuda::DeviceHandle first, HandleOf(*driver, from));
  MILLRACE_ASSIGN_OR_RETURN(const cuda::DeviceHandle second, HandleOf(*driver, to));
  int can = 0;
  MILLRACE_RETURN_IF_ERROR(ToStatus(*driver, driver->device_can_access_peer(&can, first, second),
                                    "cuDeviceCanAccessPeer"));
  return can != 0;
}

absl::StatusOr<std::unique_ptr<CudaCopier>> MakeCudaCopier(int ordinal, size_t bytes) {
  MILLRACE_ASSIGN_OR_RETURN(auto driver, cuda::ProcessDriver());
  MILLRACE_ASSIGN_OR_RETURN(auto context, PrimaryContext::Retain(std::move(driver), ordinal));
  auto copier = std::make_unique<Copier>(std::move(context), bytes);
  MILLRACE_RETURN_IF_ERROR(copier->Allocate());
  return copier;
}

}  // namespace millrace::pipeline
