#include "tests/pipeline/device/gpu.h"

#include <memory>

#include "base/loaded_library.h"
#include "base/status.h"
#include "pipeline/cuda/driver.h"
#include "pipeline/cuda/primary_context.h"

namespace millrace::pipeline {
namespace {

using CopyToHost = cuda::Result(void* to, cuda::Address from, size_t bytes,
                                cuda::StreamHandle stream);  // cuMemcpyDtoHAsync
using MemHostGetFlags = cuda::Result(unsigned int* flags, void* memory);
using CtxGetCurrent = cuda::Result(cuda::ContextHandle* context);

// Points `function` to one that the pipeline does not need.
template <typename F>
absl::Status FindInDriver(const cuda::Driver& driver, const char* name, F*& function) {
  MILLRACE_ASSIGN_OR_RETURN(const LoadedLibrary library,
                            LoadedLibrary::Load(driver.library, "no CUDA driver", "install one"));
  return library.Find(name, function);
}

}  // namespace

absl::Status ReadBackFromGpu(void* host, const void* memory, size_t bytes, void* stream) {
  MILLRACE_ASSIGN_OR_RETURN(const auto driver, cuda::ProcessDriver());
  CopyToHost* copy = nullptr;
  MILLRACE_RETURN_IF_ERROR(FindInDriver(*driver, "cuMemcpyDtoHAsync_v2", copy));
  MILLRACE_ASSIGN_OR_RETURN(const auto context, cuda::PrimaryContext::Retain(driver, 0));
  const cuda::CurrentContext current(*context);
  MILLRACE_RETURN_IF_ERROR(current.status());
  const auto on = static_cast<cuda::StreamHandle>(stream);
  MILLRACE_RETURN_IF_ERROR(ToStatus(*driver,
                                    copy(host, reinterpret_cast<cuda::Address>(memory), bytes, on),
                                    "cuMemcpyDtoHAsync"));
  return ToStatus(*driver, driver->stream_synchronize(on), "cuStreamSynchronize");
}

absl::StatusOr<bool> IsPageLocked(const void* memory) {
  MILLRACE_ASSIGN_OR_RETURN(const auto driver, cuda::ProcessDriver());
  MemHostGetFlags* get = nullptr;
  MILLRACE_RETURN_IF_ERROR(FindInDriver(*driver, "cuMemHostGetFlags", get));
  MILLRACE_ASSIGN_OR_RETURN(const auto context, cuda::PrimaryContext::Retain(driver, 0));
  const cuda::CurrentContext current(*context);
  MILLRACE_RETURN_IF_ERROR(current.status());
  unsigned int flags = 0;
  const cuda::Result result = get(&flags, const_cast<void*>(memory));
  return result == cuda::Result::kSuccess && (flags & cuda::kMemHostAllocPortable) != 0;
}

absl::StatusOr<const void*> CurrentGpuContext() {
  MILLRACE_ASSIGN_OR_RETURN(const auto driver, cuda::ProcessDriver());
  CtxGetCurrent* get = nullptr;
  MILLRACE_RETURN_IF_ERROR(FindInDriver(*driver, "cuCtxGetCurrent", get));
  cuda::ContextHandle current = nullptr;
  MILLRACE_RETURN_IF_ERROR(ToStatus(*driver, get(&current), "cuCtxGetCurrent"));
  return static_cast<const void*>(current);
}

}  // namespace millrace::pipeline
