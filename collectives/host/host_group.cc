#include "collectives/host/host_group.h"

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "collectives/host/host.h"

namespace millrace::collectives {

absl::StatusOr<std::unique_ptr<Communicator>> SplitByHost(Communicator& communicator) {
  auto own = static_cast<int64_t>(HostIdentity());
  std::vector<int64_t> all(communicator.size());
  MILLRACE_RETURN_IF_ERROR(
      communicator.AllGather(TensorView{&own, DType::kI64, Shape{1}},
                             {all.data(), DType::kI64, Shape{communicator.size()}}));
  int color = communicator.rank();  // a host that cannot be told from others is one of its own
  for (int rank = 0; own != 0 && rank < color; ++rank) {
    if (all[rank] == own) color = rank;
  }
  return communicator.Split(color, communicator.rank());
}

}  // namespace millrace::collectives
