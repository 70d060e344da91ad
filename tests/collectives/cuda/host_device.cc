#include "tests/collectives/cuda/host_queue.h"

// Takes the place of the library's MakeCudaQueue in the program that it is linked into: the host is
// every CUDA device, for a fake libnccl.

namespace millrace::collectives {

absl::StatusOr<std::unique_ptr<DeviceQueue>> MakeCudaQueue(int, void*) { return MakeHostQueue(); }

}  // namespace millrace::collectives
