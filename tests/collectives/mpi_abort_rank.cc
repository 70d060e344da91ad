// One rank fails by itself and aborts; its peers wait in an AllReduce that can never end. The job
// must end with exit code 1; 3 says that the peers did not wait.
#include <iostream>

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
  std::cerr << "AllReduce returned " << status << "\n";
  return 3;
}
