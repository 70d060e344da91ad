#ifndef MILLRACE_CLI_DOCTOR_LIBRARIES_H_
#define MILLRACE_CLI_DOCTOR_LIBRARIES_H_

#include <functional>

#include "cli/doctor/gpu_report.h"

namespace millrace::cli::doctor {

// ProbeEnd::doing while each is loaded.
inline constexpr char kLoadingRuntime[] = "loading the CUDA runtime";
inline constexpr char kLoadingCudnn[] = "loading cuDNN";
inline constexpr char kLoadingNccl[] = "loading NCCL";

// Loads the CUDA runtime, cuDNN and NCCL, and asks each for its version; no device is needed. A
// library that the dynamic linker does not find is looked for in the places of Python's packages.
// `send` gets the report as it is before each of them, and in the end. For a child process.
void ProbeLibraries(const std::function<void(const LibrariesReport&)>& send);

// "12.4" of 12040.
std::string CudaVersionText(int version);

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_CLI_DOCTOR_LIBRARIES_H_
