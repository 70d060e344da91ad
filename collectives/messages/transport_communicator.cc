// The communicator of every backend that is a transport of messages.

#include "collectives/messages/transport_communicator.h"

#include <utility>

#include "base/status.h"
#include "collectives/core/checks.h"
#include "collectives/messages/transport_group.h"

namespace millrace::collectives {
namespace {

class Begun final : public Pending {
 public:
  Begun(std::shared_ptr<TransportGroup> group, const Request& request,
        const absl::Status& arguments, const WaitLimits& limits)
      : group_(std::move(group)), limits_(limits), operation_(request, arguments) {
    group_->Begin(operation_);
  }
  ~Begun() override { (void)Wait(); }

  bool Poll() override { return group_->Poll(operation_, limits_); }
  absl::Status Wait() override {
    return operation_.ended() ? operation_.outcome() : group_->Wait(operation_, limits_);
  }
  int AwaitedPeer() const override { return operation_.AwaitedPeer(); }

 private:
  const std::shared_ptr<TransportGroup> group_;
  const WaitLimits limits_;
  Operation operation_;
};

class TransportCommunicator final : public Communicator {
 public:
  explicit TransportCommunicator(std::shared_ptr<TransportGroup> group)
      : group_(std::move(group)) {}

  int rank() const override { return group_->transport().rank(); }
  int size() const override { return group_->transport().size(); }
  int local_rank() const override { return group_->transport().local_rank(); }
  int local_size() const override { return group_->transport().local_size(); }
  int RankInJob(int rank) const override { return group_->transport().RankInJob(rank); }
  std::string_view backend() const override { return group_->transport().name(); }
  Capabilities capabilities() const override { return group_->transport().capabilities(); }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  void Abort(const absl::Status& reason) override { group_->Abort(reason); }
  void Leave(const absl::Status& reason) override { group_->Leave(reason); }
  absl::Status Heard() override { return group_->Heard(); }

 private:
  absl::Status RunChecked(const Request& request, const absl::Status& arguments) override;
  std::unique_ptr<Pending> StartChecked(const Request& request,
                                        const absl::Status& arguments) override {
    return std::make_unique<Begun>(group_, request, arguments, limits());
  }

  const std::shared_ptr<TransportGroup> group_;
};

absl::Status TransportCommunicator::RunChecked(const Request& request,
                                               const absl::Status& arguments) {
  Operation operation(request, arguments);
  group_->Begin(operation);
  return group_->Wait(operation, limits());
}

// Once the ranks have told each other their choices, the transport need not wait, and if it fails
// on one rank it fails on all.
absl::StatusOr<std::unique_ptr<Communicator>> TransportCommunicator::Split(int color, int key) {
  const Transport::Choice choice = {color, key, group_->transport().next_group()};
  Operation operation(choice, CheckColor(color));
  group_->Begin(operation);
  MILLRACE_RETURN_IF_ERROR(group_->Wait(operation, limits()));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Transport> part,
                            group_->transport().Split(operation.choices()));
  auto communicator = std::make_unique<TransportCommunicator>(
      std::make_shared<TransportGroup>(std::move(part), group_->options(), group_));
  communicator->set_limits(limits());
  return communicator;
}

}  // namespace

std::unique_ptr<Communicator> MakeTransportCommunicator(std::unique_ptr<Transport> transport,
                                                        const TransportOptions& options) {
  return std::make_unique<TransportCommunicator>(
      std::make_shared<TransportGroup>(std::move(transport), options, nullptr));
}

}  // namespace millrace::collectives
