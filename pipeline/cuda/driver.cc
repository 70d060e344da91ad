// Loads libcuda at run time: it comes with NVIDIA's driver and is absent on most machines, so
// neither building nor starting a program may need it. The functions have the names of their
// newest versions ("_v2"), which the macros of cuda.h hide.

#include "pipeline/cuda/driver.h"

#include "absl/strings/str_cat.h"
#include "base/loaded_library.h"
#include "base/status.h"

namespace millrace::pipeline::cuda {
namespace {

constexpr char kVariable[] = "MILLRACE_CUDA_LIBRARY";
constexpr char kDefaultLibrary[] = "libcuda.so.1";

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

absl::Status FindErrors(const LoadedLibrary& library, Driver& driver) {
  MILLRACE_RETURN_IF_ERROR(library.Find("cuGetErrorName", driver.get_error_name));
  return library.Find("cuGetErrorString", driver.get_error_string);
}

absl::Status CheckVersion(const LoadedLibrary& library, Driver& driver) {
  DriverGetVersion* get_version = nullptr;
  MILLRACE_RETURN_IF_ERROR(library.Find("cuDriverGetVersion", get_version));
  const absl::Status told = ToStatus(driver, get_version(&driver.version), "cuDriverGetVersion");
  if (!told.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "CUDA driver ", driver.library, " does not tell its version: ", told.message()));
  }
  if (driver.version >= kOldestVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("CUDA driver ", driver.library, " serves CUDA ",
                                                    VersionText(driver.version), "; wanted is ",
                                                    VersionText(kOldestVersion), " or newer"));
}

absl::Status FindDevices(const LoadedLibrary& library, Driver& driver) {
  MILLRACE_RETURN_IF_ERROR(library.Find("cuDeviceGetCount", driver.device_get_count));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuDeviceGet", driver.device_get));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuDeviceGetName", driver.device_get_name));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuDeviceGetAttribute", driver.device_get_attribute));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuDeviceTotalMem_v2", driver.device_total_mem));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuDeviceGetPCIBusId", driver.device_get_pci_bus_id));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuDevicePrimaryCtxRetain", driver.primary_ctx_retain));
  MILLRACE_RETURN_IF_ERROR(
      library.Find("cuDevicePrimaryCtxRelease_v2", driver.primary_ctx_release));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuCtxPushCurrent_v2", driver.ctx_push_current));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuCtxPopCurrent_v2", driver.ctx_pop_current));
  return library.Find("cuThreadExchangeStreamCaptureMode",
                      driver.thread_exchange_stream_capture_mode);
}

absl::Status FindPeers(const LoadedLibrary& library, Driver& driver) {
  MILLRACE_RETURN_IF_ERROR(library.Find("cuDeviceCanAccessPeer", driver.device_can_access_peer));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuCtxEnablePeerAccess", driver.ctx_enable_peer_access));
  return library.Find("cuMemcpyPeerAsync", driver.memcpy_peer_async);
}

absl::Status FindMemory(const LoadedLibrary& library, Driver& driver) {
  MILLRACE_RETURN_IF_ERROR(library.Find("cuMemAlloc_v2", driver.mem_alloc));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuMemFree_v2", driver.mem_free));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuMemAllocAsync", driver.mem_alloc_async));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuMemFreeAsync", driver.mem_free_async));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuMemHostAlloc", driver.mem_host_alloc));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuMemFreeHost", driver.mem_free_host));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuMemcpyHtoDAsync_v2", driver.memcpy_htod_async));
  return library.Find("cuMemcpyDtoHAsync_v2", driver.memcpy_dtoh_async);
}

absl::Status FindStreams(const LoadedLibrary& library, Driver& driver) {
  MILLRACE_RETURN_IF_ERROR(library.Find("cuStreamCreate", driver.stream_create));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuStreamDestroy_v2", driver.stream_destroy));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuStreamSynchronize", driver.stream_synchronize));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuStreamWaitEvent", driver.stream_wait_event));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuEventCreate", driver.event_create));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuEventDestroy_v2", driver.event_destroy));
  MILLRACE_RETURN_IF_ERROR(library.Find("cuEventRecord", driver.event_record));
  return library.Find("cuEventQuery", driver.event_query);
}

// A driver that has no device says so here, as does one that does not fit its kernel module.
absl::Status Initialise(const LoadedLibrary& library, const Driver& driver) {
  Init* init = nullptr;
  MILLRACE_RETURN_IF_ERROR(library.Find("cuInit", init));
  const absl::Status status = ToStatus(driver, init(0), "cuInit");
  if (status.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("no CUDA device: ", status.message()));
}

std::string ErrorText(const Driver& driver, Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.get_error_name(result, &name) != Result::kSuccess || name == nullptr) {
    return absl::StrCat("CUDA's error ", static_cast<int>(result));
  }
  if (driver.get_error_string(result, &text) != Result::kSuccess || text == nullptr) return name;
  return absl::StrCat(name, ": ", text);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Driver>> LoadDriver(const std::string& library) {
  const LibraryChoice choice = ChooseLibrary(library, kVariable, kDefaultLibrary);
  MILLRACE_ASSIGN_OR_RETURN(
      const LoadedLibrary loaded,
      LoadedLibrary::Load(
          choice.library,
          absl::StrCat("no CUDA driver: tried ", choice.library, " (", choice.why, ")"),
          absl::StrCat("install NVIDIA's driver, or name its library with ", kVariable)));
  auto driver = std::make_shared<Driver>();
  driver->library = choice.library;
  MILLRACE_RETURN_IF_ERROR(FindErrors(loaded, *driver));
  MILLRACE_RETURN_IF_ERROR(CheckVersion(loaded, *driver));
  MILLRACE_RETURN_IF_ERROR(FindDevices(loaded, *driver));
  MILLRACE_RETURN_IF_ERROR(FindPeers(loaded, *driver));
  MILLRACE_RETURN_IF_ERROR(FindMemory(loaded, *driver));
  MILLRACE_RETURN_IF_ERROR(FindStreams(loaded, *driver));
  MILLRACE_RETURN_IF_ERROR(Initialise(loaded, *driver));
  return driver;
}

absl::StatusOr<std::shared_ptr<const Driver>> ProcessDriver() {
  // Never destroyed: batches may be dropped while the process ends.
  static const auto* const driver =
      new absl::StatusOr<std::shared_ptr<const Driver>>(LoadDriver(""));
  return *driver;
}

absl::Status ToStatus(const Driver& driver, Result result, std::string_view call) {
  if (result == Result::kSuccess) return absl::OkStatus();
  const std::string text = absl::StrCat(ToAbsl(call), ": ", ErrorText(driver, result));
  return result == Result::kOutOfMemory ? absl::ResourceExhaustedError(text)
                                        : absl::InternalError(text);
}

}  // namespace millrace::pipeline::cuda
