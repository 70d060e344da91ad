#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_NORM_POOL_CASES_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_NORM_POOL_CASES_H_

#include <vector>

#include "tests/trainer/backend/cuda/kernel_cases.h"

namespace millrace::trainer::cuda {

// Adds those of the kernels that do a batch norm and its pool in one, for AllKernelCases.
void AddNormPools(std::vector<KernelCase>& cases);

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_NORM_POOL_CASES_H_
