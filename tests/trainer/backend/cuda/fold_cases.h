#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_FOLD_CASES_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_FOLD_CASES_H_

#include <vector>

#include "tests/trainer/backend/cuda/kernel_cases.h"

namespace millrace::trainer::cuda {

// The kernels that fold images and weights, as AllKernelCases has the others.
std::vector<KernelCase> FoldKernelCases();

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_FOLD_CASES_H_
