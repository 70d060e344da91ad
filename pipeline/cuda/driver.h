#ifndef MILLRACE_PIPELINE_CUDA_DRIVER_H_
#define MILLRACE_PIPELINE_CUDA_DRIVER_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/cuda/types.h"

namespace millrace::pipeline::cuda {

// The oldest CUDA whose driver allocates in the order of a stream, as cuDriverGetVersion tells it.
inline constexpr int kOldestVersion = 11020;

// The functions of a loaded libcuda. Immutable; the library stays loaded until the process ends.
struct Driver {
  std::string library;  // the file, as it was loaded
  int version = 0;      // the newest CUDA that the driver serves: 12040 is 12.4

  GetErrorName* get_error_name = nullptr;
  GetErrorString* get_error_string = nullptr;
  DeviceGetCount* device_get_count = nullptr;
  DeviceGet* device_get = nullptr;
  DeviceGetName* device_get_name = nullptr;
  DeviceGetAttribute* device_get_attribute = nullptr;
  DeviceTotalMem* device_total_mem = nullptr;
  DeviceGetPCIBusId* device_get_pci_bus_id = nullptr;
  DeviceCanAccessPeer* device_can_access_peer = nullptr;
  DevicePrimaryCtxRetain* primary_ctx_retain = nullptr;
  DevicePrimaryCtxRelease* primary_ctx_release = nullptr;
  CtxPushCurrent* ctx_push_current = nullptr;
  CtxPopCurrent* ctx_pop_current = nullptr;
  CtxEnablePeerAccess* ctx_enable_peer_access = nullptr;
  ThreadExchangeStreamCaptureMode* thread_exchange_stream_capture_mode = nullptr;
  MemAlloc* mem_alloc = nullptr;
  MemFree* mem_free = nullptr;
  MemAllocAsync* mem_alloc_async = nullptr;
  MemFreeAsync* mem_free_async = nullptr;
  MemHostAlloc* mem_host_alloc = nullptr;
  MemFreeHost* mem_free_host = nullptr;
  MemcpyHtoDAsync* memcpy_htod_async = nullptr;
  MemcpyDtoHAsync* memcpy_dtoh_async = nullptr;
  MemcpyPeerAsync* memcpy_peer_async = nullptr;
  StreamCreate* stream_create = nullptr;
  StreamDestroy* stream_destroy = nullptr;
  StreamSynchronize* stream_synchronize = nullptr;
  StreamWaitEvent* stream_wait_event = nullptr;
  EventCreate* event_create = nullptr;
  EventDestroy* event_destroy = nullptr;
  EventRecord* event_record = nullptr;
  EventQuery* event_query = nullptr;
};

// Loads and initialises `library`; if that is empty, the file that MILLRACE_CUDA_LIBRARY names; if
// that is empty too, libcuda.so.1 as the dynamic linker finds it.
//   FAILED_PRECONDITION  no such library, an unsupported version, a missing function, or no device;
//                        the message says which
absl::StatusOr<std::shared_ptr<const Driver>> LoadDriver(const std::string& library);

// Returns the driver of this process, LoadDriver(""): the first call loads it, and every later one
// returns the same, an error too. Thread-safe.
absl::StatusOr<std::shared_ptr<const Driver>> ProcessDriver();

// OK for kSuccess; else the error that `call` returned, with the driver's name and text for it:
//   RESOURCE_EXHAUSTED  kOutOfMemory
//   INTERNAL            any other
absl::Status ToStatus(const Driver& driver, Result result, std::string_view call);

}  // namespace millrace::pipeline::cuda

#endif  // MILLRACE_PIPELINE_CUDA_DRIVER_H_
