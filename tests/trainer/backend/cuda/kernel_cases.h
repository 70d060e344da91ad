#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_KERNEL_CASES_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_KERNEL_CASES_H_

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/trainer/backend/cuda/kernel_tensor.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace millrace::trainer::cuda {

// A call of some kernels, one after the other, on memory that may be copied to a device.
struct KernelCase {
  std::string name;
  std::vector<KernelTensor> memory;
  // `at` are the places of the values of `memory`.
  std::function<absl::Status(const Kernels& kernels, void* stream, std::span<void* const> at)> run;

  // Runs on `memory` itself.
  absl::Status RunHere(const Kernels& kernels, void* stream);
};

// Every kernel, with every type, with and without vectors, and each of its settings.
std::vector<KernelCase> AllKernelCases();

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_KERNEL_CASES_H_
