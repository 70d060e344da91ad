// Of the pretended libraries: which version of NCCL one is. FAKE_NCCL_VERSION says it.

#include "collectives/nccl/types.h"

extern "C" __attribute__((visibility("default"))) millrace::collectives::nccl::Result
ncclGetVersion(int* version) {
  *version = FAKE_NCCL_VERSION;
  return millrace::collectives::nccl::Result::kSuccess;
}
