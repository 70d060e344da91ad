#include <cstring>

#include "base/mutex.h"
#include "base/status.h"
#include "collectives/core/checks.h"
#include "collectives/core/pending.h"
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

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int) override {
    MILLRACE_RETURN_IF_ERROR(Checked(CheckColor(color)));
    return MakeSingle();
  }
  void Abort(const absl::Status& reason) override {
    Leave(Annotate(absl::CancelledError(reason.ToString()), "aborted by rank 0"));
  }
  void Leave(const absl::Status& reason) override {
    MutexLock lock(mu_);
    if (broken_.ok()) broken_ = reason;
  }

 private:
  absl::Status RunChecked(const Request& request, const absl::Status& arguments) override {
    MILLRACE_RETURN_IF_ERROR(Checked(arguments));
    const bool moves = request.out.data != request.in.data && request.in.size_bytes() > 0;
    if (moves) std::memcpy(request.out.data, request.in.data, request.in.size_bytes());
    return absl::OkStatus();
  }
  std::unique_ptr<Pending> StartChecked(const Request& request,
                                        const absl::Status& arguments) override {
    return MakeEnded(RunChecked(request, arguments));
  }
  absl::Status Checked(const absl::Status& arguments) {
    MutexLock lock(mu_);
    MILLRACE_RETURN_IF_ERROR(broken_);
    return arguments;
  }

  Mutex mu_;
  absl::Status broken_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<Communicator> MakeSingle() { return std::make_unique<SingleCommunicator>(); }

}  // namespace millrace::collectives
