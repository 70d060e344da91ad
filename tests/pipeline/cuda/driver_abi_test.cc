// That pipeline/cuda/types.h says what the driver's own header says. All of it is checked by the
// compiler. The header of another version of CUDA may declare functions by other versions of theirs
// ("_v2"); the driver keeps the older ones.
#include <cuda.h>

#include <string_view>
#include <type_traits>

#include "gmock/gmock.h"
#include "pipeline/cuda/types.h"

namespace millrace::pipeline::cuda {
namespace {

// Two types that are passed in the same way.
template <typename A, typename B>
constexpr bool kSame =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
    std::is_enum_v<A> == std::is_enum_v<B> && std::is_signed_v<A> == std::is_signed_v<B>;

template <typename F, typename G>
constexpr bool kSameCall = false;
template <typename R, typename... A, typename S, typename... B>
  requires(sizeof...(A) == sizeof...(B))
constexpr bool kSameCall<R(A...), S(B...)> = kSame<R, S> && (kSame<A, B> && ...);

#define MILLRACE_SAME_CALL(name) static_assert(kSameCall<decltype(::cu##name), name>)
MILLRACE_SAME_CALL(Init);
MILLRACE_SAME_CALL(DriverGetVersion);
MILLRACE_SAME_CALL(GetErrorName);
MILLRACE_SAME_CALL(GetErrorString);
MILLRACE_SAME_CALL(DeviceGetCount);
MILLRACE_SAME_CALL(DeviceGet);
MILLRACE_SAME_CALL(DeviceGetName);
MILLRACE_SAME_CALL(DeviceGetAttribute);
MILLRACE_SAME_CALL(DeviceTotalMem);
MILLRACE_SAME_CALL(DeviceGetPCIBusId);
MILLRACE_SAME_CALL(DeviceCanAccessPeer);
MILLRACE_SAME_CALL(DevicePrimaryCtxRetain);
MILLRACE_SAME_CALL(DevicePrimaryCtxRelease);
MILLRACE_SAME_CALL(CtxPushCurrent);
MILLRACE_SAME_CALL(CtxPopCurrent);
MILLRACE_SAME_CALL(CtxEnablePeerAccess);
MILLRACE_SAME_CALL(ThreadExchangeStreamCaptureMode);
MILLRACE_SAME_CALL(MemAlloc);
MILLRACE_SAME_CALL(MemFree);
MILLRACE_SAME_CALL(MemAllocAsync);
MILLRACE_SAME_CALL(MemFreeAsync);
MILLRACE_SAME_CALL(MemHostAlloc);
MILLRACE_SAME_CALL(MemFreeHost);
MILLRACE_SAME_CALL(MemcpyHtoDAsync);
MILLRACE_SAME_CALL(MemcpyDtoHAsync);
MILLRACE_SAME_CALL(MemcpyPeerAsync);
MILLRACE_SAME_CALL(StreamCreate);
MILLRACE_SAME_CALL(StreamDestroy);
MILLRACE_SAME_CALL(StreamSynchronize);
MILLRACE_SAME_CALL(StreamWaitEvent);
MILLRACE_SAME_CALL(EventCreate);
MILLRACE_SAME_CALL(EventDestroy);
MILLRACE_SAME_CALL(EventRecord);
MILLRACE_SAME_CALL(EventQuery);
#undef MILLRACE_SAME_CALL

template <typename Ours, typename Theirs>
constexpr bool Is(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs) && sizeof(Ours) == sizeof(Theirs);
}

static_assert(Is(Result::kSuccess, CUDA_SUCCESS));
static_assert(Is(Result::kInvalidValue, CUDA_ERROR_INVALID_VALUE));
static_assert(Is(Result::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(Is(Result::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED));
static_assert(Is(Result::kNoDevice, CUDA_ERROR_NO_DEVICE));
static_assert(Is(Result::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE));
static_assert(Is(Result::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT));
static_assert(Is(Result::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE));
static_assert(Is(Result::kNotReady, CUDA_ERROR_NOT_READY));
static_assert(Is(Result::kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED));
static_assert(Is(Result::kStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
static_assert(Is(CaptureMode::kGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL));
static_assert(Is(CaptureMode::kRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED));
static_assert(Is(DeviceAttribute::kComputeCapabilityMajor,
                 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(Is(DeviceAttribute::kComputeCapabilityMinor,
                 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(Is(DeviceAttribute::kMemoryPoolsSupported,
                 CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED));
static_assert(kMemHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kEventWaitDefault == CU_EVENT_WAIT_DEFAULT);

// The functions that pipeline/cuda/driver.cc looks for with a version are those that the header
// means.
#define MILLRACE_TEXT_OF(name) #name
#define MILLRACE_NAME_OF(name) MILLRACE_TEXT_OF(name)
TEST(DriverAbi, VersionedNamesAreThoseOfTheHeader) {
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuDevicePrimaryCtxRelease)),
            "cuDevicePrimaryCtxRelease_v2");
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuCtxPushCurrent)), "cuCtxPushCurrent_v2");
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuCtxPopCurrent)), "cuCtxPopCurrent_v2");
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuMemAlloc)), "cuMemAlloc_v2");
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuMemFree)), "cuMemFree_v2");
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuMemcpyHtoDAsync)), "cuMemcpyHtoDAsync_v2");
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuMemcpyDtoHAsync)), "cuMemcpyDtoHAsync_v2");
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuDeviceTotalMem)), "cuDeviceTotalMem_v2");
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuStreamDestroy)), "cuStreamDestroy_v2");
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuEventDestroy)), "cuEventDestroy_v2");
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuStreamCreate)), "cuStreamCreate");
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuMemHostAlloc)), "cuMemHostAlloc");
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuMemcpyPeerAsync)), "cuMemcpyPeerAsync");
  EXPECT_EQ(std::string_view(MILLRACE_NAME_OF(cuThreadExchangeStreamCaptureMode)),
            "cuThreadExchangeStreamCaptureMode");
}
#undef MILLRACE_NAME_OF
#undef MILLRACE_TEXT_OF

}  // namespace
}  // namespace millrace::pipeline::cuda
