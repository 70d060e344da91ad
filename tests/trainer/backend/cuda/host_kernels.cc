#include "tests/trainer/backend/cuda/host_kernels.h"

#include "tests/trainer/backend/cuda/simt.h"
#include "trainer/backend/cuda/kernels/entries.h"

namespace millrace::trainer::cuda {

const Kernels& HostKernels() { return on_host::kTable; }

}  // namespace millrace::trainer::cuda
