#ifndef MILLRACE_PIPELINE_CUDA_TYPES_H_
#define MILLRACE_PIPELINE_CUDA_TYPES_H_

#include <cstddef>

// The part of the CUDA driver's binary interface that the pipeline uses, declared again, so that
// building does not need CUDA. Names and values are those of cuda.h, which the driver keeps stable
// for all later versions; tests/pipeline/cuda/driver_abi_test.cc compares them with the real header
// if there is one.

namespace millrace::pipeline::cuda {

struct ContextData;                  // CUctx_st
struct StreamData;                   // CUstream_st
struct EventData;                    // CUevent_st
using DeviceHandle = int;            // CUdevice
using ContextHandle = ContextData*;  // CUcontext
using StreamHandle = StreamData*;    // CUstream, which is cudaStream_t too
using EventHandle = EventData*;      // CUevent
using Address = unsigned long long;  // CUdeviceptr

enum class Result : int {  // CUresult
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotReady = 600,
  kLaunchFailed = 719,
  kStreamCaptureUnsupported = 900,
};

enum class CaptureMode : int {  // CUstreamCaptureMode
  kGlobal = 0,
  kRelaxed = 2,
};

enum class DeviceAttribute : int {  // CUdevice_attribute
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMemoryPoolsSupported = 115,
};

inline constexpr unsigned int kMemHostAllocPortable = 1;  // CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned int kStreamNonBlocking = 1;     // CU_STREAM_NON_BLOCKING
inline constexpr unsigned int kEventDisableTiming = 2;    // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned int kEventWaitDefault = 0;      // CU_EVENT_WAIT_DEFAULT

// The functions, by the names of cuda.h without "cu".
using Init = Result(unsigned int flags);
using DriverGetVersion = Result(int* version);
using GetErrorName = Result(Result error, const char** name);
using GetErrorString = Result(Result error, const char** text);
using DeviceGetCount = Result(int* count);
using DeviceGet = Result(DeviceHandle* device, int ordinal);
using DeviceGetName = Result(char* name, int size, DeviceHandle device);
using DeviceGetAttribute = Result(int* value, DeviceAttribute attribute, DeviceHandle device);
using DeviceTotalMem = Result(size_t* bytes, DeviceHandle device);
using DeviceGetPCIBusId = Result(char* address, int size, DeviceHandle device);
using DeviceCanAccessPeer = Result(int* can, DeviceHandle device, DeviceHandle peer);
using DevicePrimaryCtxRetain = Result(ContextHandle* context, DeviceHandle device);
using DevicePrimaryCtxRelease = Result(DeviceHandle device);
using CtxPushCurrent = Result(ContextHandle context);
using CtxPopCurrent = Result(ContextHandle* context);
using CtxEnablePeerAccess = Result(ContextHandle peer, unsigned int flags);
using ThreadExchangeStreamCaptureMode = Result(CaptureMode* mode);
using MemAlloc = Result(Address* memory, size_t bytes);
using MemFree = Result(Address memory);
using MemAllocAsync = Result(Address* memory, size_t bytes, StreamHandle stream);
using MemFreeAsync = Result(Address memory, StreamHandle stream);
using MemHostAlloc = Result(void** memory, size_t bytes, unsigned int flags);
using MemFreeHost = Result(void* memory);
using MemcpyHtoDAsync = Result(Address to, const void* from, size_t bytes, StreamHandle stream);
using MemcpyDtoHAsync = Result(void* to, Address from, size_t bytes, StreamHandle stream);
using MemcpyPeerAsync = Result(Address to, ContextHandle to_context, Address from,
                               ContextHandle from_context, size_t bytes, StreamHandle stream);
using StreamCreate = Result(StreamHandle* stream, unsigned int flags);
using StreamDestroy = Result(StreamHandle stream);
using StreamSynchronize = Result(StreamHandle stream);
using StreamWaitEvent = Result(StreamHandle stream, EventHandle event, unsigned int flags);
using EventCreate = Result(EventHandle* event, unsigned int flags);
using EventDestroy = Result(EventHandle event);
using EventRecord = Result(EventHandle event, StreamHandle stream);
using EventQuery = Result(EventHandle event);

}  // namespace millrace::pipeline::cuda

#endif  // MILLRACE_PIPELINE_CUDA_TYPES_H_
