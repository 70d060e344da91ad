#ifndef MILLRACE_TRAINER_BACKEND_CUDA_CUDNN_FRONTEND_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_CUDNN_FRONTEND_H_

// The headers of cudnn-frontend, which take half a minute to compile, and calls of them: for
// plans.cc alone.

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"

namespace millrace::trainer::cuda {

namespace fe = cudnn_frontend;

// The library's words as one line, and not all of them: it gives a reason for each plan.
inline std::string OneLine(std::string_view words) {
  constexpr size_t kMost = 300;
  const std::string line = absl::StrReplaceAll(ToAbsl(words), {{"\n", " "}});
  return line.size() <= kMost ? line : absl::StrCat(line.substr(0, kMost), " ...");
}

// Calls the library, whose headers also throw.
template <typename Call>
absl::Status Try(absl::StatusCode code, Call call) {
  try {
    fe::error_t error = call();
    if (error.is_good()) return absl::OkStatus();
    return absl::Status(code, OneLine(error.get_message()));
  } catch (const std::exception& error) {
    return absl::Status(code, OneLine(error.what()));
  }
}

template <typename Call>
absl::Status TryPlan(Call call) {
  return Try(absl::StatusCode::kUnimplemented, call);
}

template <typename Call>
absl::Status TryCall(std::string_view name, Call call) {
  return Try(absl::StatusCode::kInternal, [&]() -> fe::error_t {
    const cudnnStatus_t status = call();
    if (status == CUDNN_STATUS_SUCCESS) return {};
    return {fe::error_code_t::CUDNN_BACKEND_API_FAILED,
            std::string(name) + ": " + fe::to_string(status)};
  });
}

// A context of the library on the device that is current.
class CudnnHandle {
 public:
  CudnnHandle() = default;
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;
  ~CudnnHandle() {
    if (handle_ != nullptr) fe::detail::destroy_handle(handle_);
  }
  absl::Status Open() {
    return TryCall("cudnnCreate", [&] { return fe::detail::create_handle(&handle_); });
  }
  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

// The device that plans are chosen for.
struct PlanTarget {
  std::shared_ptr<CudnnHandle> handle;  // null: it is not here
  std::shared_ptr<fe::DeviceProperties> properties;
  std::string json;
  int sm_version = 0;  // 90 for an H100; 0: unknown
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_CUDNN_FRONTEND_H_
