#include "collectives/communicator.h"

#include "collectives/core/checks.h"

namespace millrace::collectives {

absl::Status Communicator::AllReduce(TensorView data, ReduceOp op) {
  return Run({Collective::kAllReduce, data, data, op});
}

absl::Status Communicator::AllReduce(ConstTensorView in, TensorView out, ReduceOp op) {
  return Run({Collective::kAllReduce, in, out, op});
}

absl::Status Communicator::ReduceScatter(TensorView data, ReduceOp op) {
  return Run({Collective::kReduceScatter, data, OwnBlock(data, rank(), size()), op});
}

absl::Status Communicator::ReduceScatter(ConstTensorView in, TensorView out, ReduceOp op) {
  return Run({Collective::kReduceScatter, in, out, op});
}

absl::Status Communicator::AllGather(ConstTensorView in, TensorView out) {
  return Run({Collective::kAllGather, in, out});
}

absl::Status Communicator::Broadcast(TensorView data, int root) {
  return Run({Collective::kBroadcast, data, data, ReduceOp::kSum, root});
}

absl::Status Communicator::Reduce(TensorView data, ReduceOp op, int root) {
  return Run({Collective::kReduce, data, data, op, root});
}

absl::Status Communicator::Reduce(ConstTensorView in, TensorView out, ReduceOp op, int root) {
  return Run({Collective::kReduce, in, out, op, root});
}

absl::Status Communicator::AllToAll(ConstTensorView in, TensorView out) {
  return Run({Collective::kAllToAll, in, out});
}

absl::Status Communicator::Barrier() { return Run(Request()); }

absl::Status Communicator::Send(ConstTensorView data, int peer) {
  return Run({Collective::kSend, data, {}, ReduceOp::kSum, peer});
}

absl::Status Communicator::Recv(TensorView data, int peer) {
  return Run({Collective::kRecv, {}, data, ReduceOp::kSum, peer});
}

absl::Status Communicator::Run(const Request& request) {
  return RunChecked(request, CheckRequest(request, rank(), size()));
}

std::unique_ptr<Pending> Communicator::Start(const Request& request) {
  return StartChecked(request, CheckRequest(request, rank(), size()));
}

}  // namespace millrace::collectives
