#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_UPDATE_CASES_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_UPDATE_CASES_H_

#include <vector>

#include "tests/trainer/backend/cuda/kernel_cases.h"

namespace millrace::trainer::cuda {

// The kernels of optimizers (kernels/update.h), as AllKernelCases has those of networks.
std::vector<KernelCase> UpdateKernelCases();

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_UPDATE_CASES_H_
