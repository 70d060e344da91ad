#include <cstring>

#include "base/mutex.h"
#include "base/status.h"
#include "collectives/checks_internal.h"
#include "collectives/factory.h"

namespace millrace::collectives {
namespace {

// A reduction over one rank is the value itself, so only the checks remain.
class SingleCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  std::string_view backend() const override { return "single"; }

  absl::Status AllReduce(TensorView data, ReduceOp) override { return Checked(CheckView(data)); }
  absl::Status ReduceScatter(TensorView data, ReduceOp) override {
    return Checked(CheckBlocks(data, 1));
  }
  absl::Status AllGather(ConstTensorView in, TensorView out) override {
    MILLRACE_RETURN_IF_ERROR(Checked(CheckGather(in, out, 1)));
    if (in.size_bytes() > 0) std::memmove(out.data, in.data, in.size_bytes());
    return absl::OkStatus();
  }
  absl::Status Broadcast(TensorView data, int root) override {
    return Checked(CheckRooted(data, root, 1));
  }
  absl::Status Barrier() override { return Checked(absl::OkStatus()); }
  absl::Status Send(ConstTensorView data, int peer) override {
    return Checked(CheckPeer(data, peer, 0, 1));
  }
  absl::Status Recv(TensorView data, int peer) override {
    return Checked(CheckPeer(data, peer, 0, 1));
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int) override {
    MILLRACE_RETURN_IF_ERROR(Checked(CheckColor(color)));
    return MakeSingle();
  }
  void Abort(const absl::Status& reason) override {
    MutexLock lock(mu_);
    if (aborted_.ok()) {
      aborted_ = Annotate(absl::CancelledError(reason.ToString()), "aborted by rank 0");
    }
  }

 private:
  absl::Status Checked(const absl::Status& arguments) {
    MutexLock lock(mu_);
    MILLRACE_RETURN_IF_ERROR(aborted_);
    return arguments;
  }

  Mutex mu_;
  absl::Status aborted_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<Communicator> MakeSingle() { return std::make_unique<SingleCommunicator>(); }

}  // namespace millrace::collectives
