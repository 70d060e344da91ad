#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_HOST_STREAM_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_HOST_STREAM_H_

#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace millrace::trainer::cuda {

// The stream of a HostDevice, as kernels and products get it.
struct HostStream {
  // Work that was given and is not done; null: work is done as it is given.
  std::vector<std::function<absl::Status()>>* capturing = nullptr;

  absl::Status Give(std::function<absl::Status()> work) const {
    if (capturing == nullptr) return work();
    capturing->push_back(std::move(work));
    return absl::OkStatus();
  }
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_HOST_STREAM_H_
