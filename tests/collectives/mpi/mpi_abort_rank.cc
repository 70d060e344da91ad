// One rank fails by itself and aborts; its peers wait in an AllReduce that can never end. The job
// must end with exit code 1, that of MPI_Abort and of peers who hear of it before MPI has killed
// them; 3 says that a peer's wait ended otherwise.
#include <iostream>

#include "absl/strings/match.h"
#include "collectives/factory.h"

int main() {
  auto launch = millrace::collectives::Connect();
  if (!launch.ok()) {
    std::cerr << launch.status() << "\n";
    return 3;
  }
  millrace::collectives::Communicator& comm = *launch->communicator;
  if (comm.size() < 2) return 3;
  if (comm.rank() == 1) comm.Abort(absl::DataLossError("shard 7 is corrupt"));
  float value = 1;
  const absl::Status status = comm.AllReduce({&value, millrace::DType::kF32, millrace::Shape{1}},
                                             millrace::collectives::ReduceOp::kSum);
  if (absl::IsCancelled(status)) return 1;  // heard of it before the launcher came
  std::cerr << "AllReduce returned " << status << "\n";
  const bool told =
      absl::IsCancelled(status) && absl::StrContains(status.message(), "shard 7 is corrupt");
  return told ? 1 : 3;
}
