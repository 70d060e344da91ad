#include "capi/collectives/group.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "capi/call/error.h"
#include "collectives/peer_lost.h"

namespace millrace::capi {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kStallAbort = std::chrono::minutes(30);

// An option in nanoseconds, where 0 means the default.
nanoseconds TimeOr(int64_t given_ns, nanoseconds otherwise) {
  return given_ns == 0 ? otherwise : nanoseconds(given_ns);
}

absl::Status CheckOptions(const mr_comm_options& options) {
  if (options.connect_timeout_ns < 0 || options.timeout_ns < 0 || options.stall_report_ns < 0) {
    return absl::InvalidArgumentError(
        "mr_comm_options: connect_timeout_ns, timeout_ns or stall_report_ns is below 0");
  }
  if (options.backend != nullptr && std::string(options.backend) == "nccl") {
    return absl::UnimplementedError(
        "backend 'nccl' is for tensors on devices; those of mr_comm are in the host's memory");
  }
  return absl::OkStatus();
}

collectives::ConnectOptions ConnectOptionsOf(const mr_comm_options& options) {
  collectives::ConnectOptions connect;
  if (options.backend != nullptr) connect.backend = options.backend;
  if (options.rendezvous != nullptr) connect.rendezvous = options.rendezvous;
  if (options.job_id != nullptr) connect.job_id = options.job_id;
  if (options.world != 0) connect.flags = {.rank = options.rank, .size = options.world};
  const bool by_mpi = connect.backend == "mpi";
  connect.ignore_launcher = options.world != 0 && options.rendezvous != nullptr && !by_mpi;
  connect.connect_timeout = TimeOr(options.connect_timeout_ns, connect.connect_timeout);
  if (options.watch != nullptr) {
    connect.watch = [watch = options.watch, user = options.user] { return TakeError(watch(user)); };
  }
  return connect;
}

collectives::WatchdogOptions WatchdogOptionsOf(const mr_comm_options& options, int rank) {
  collectives::WatchdogOptions watch;
  watch.stall_report =
      std::chrono::duration_cast<milliseconds>(TimeOr(options.stall_report_ns, watch.stall_report));
  watch.stall_abort = std::chrono::duration_cast<milliseconds>(
      options.stall_abort_ns < 0 ? nanoseconds(0) : TimeOr(options.stall_abort_ns, kStallAbort));
  if (options.stalled == nullptr) return watch;
  watch.on_stall = [told = options.stalled, user = options.user,
                    rank](const collectives::Stall& stall) {
    if (rank != stall.speaker) return;
    const std::string text = stall.ToString();
    told(user, text.data(), text.size());
  };
  return watch;
}

}  // namespace

Group::Group(std::unique_ptr<collectives::Communicator> communicator)
    : process_(getpid()),
      communicator_(std::move(communicator)),
      backend_(communicator_->backend()) {
  communicator_->set_limits({communicator_->timeout(), [this] { return Health(); }});
}

// Ranks that end one after the other do not take each other for lost.
Group::~Group() {
  communicator_->set_limits({communicator_->timeout(), nullptr});
  Enter(-1, -1, collectives::Phase::kEnded);
  watchdog_.reset();
}

absl::StatusOr<std::shared_ptr<Group>> Group::Connect(const mr_comm_options& options,
                                                      std::string* reason) {
  MILLRACE_RETURN_IF_ERROR(CheckOptions(options));
  const collectives::ConnectOptions connect = ConnectOptionsOf(options);
  MILLRACE_ASSIGN_OR_RETURN(collectives::Launch launch, collectives::Connect(connect));
  launch.communicator->set_timeout(connect.connect_timeout);
  auto group = std::make_shared<Group>(std::move(launch.communicator));
  MILLRACE_RETURN_IF_ERROR(group->Watch(options));
  group->communicator().set_timeout(nanoseconds(options.timeout_ns));
  *reason = std::move(launch.reason);
  return group;
}

absl::Status Group::Watch(const mr_comm_options& options) {
  watch_ = options.watch;
  user_ = options.user;
  if (options.no_watchdog != 0 || communicator_->size() == 1) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(
      watchdog_, collectives::Watchdog::Make(*communicator_,
                                             WatchdogOptionsOf(options, communicator_->rank())));
  return absl::OkStatus();
}

void Group::Leave(const absl::Status& reason) {
  communicator_->Leave(reason);
  if (watchdog_ != nullptr) watchdog_->Leave();
}

void Group::Enter(int64_t step, int bucket, collectives::Phase phase) {
  if (watchdog_ != nullptr) watchdog_->Enter(step, bucket, phase);
}

absl::Status Group::Health() const {
  if (cancelled_.load(std::memory_order_acquire)) {
    return absl::CancelledError("mr_comm_cancel was called on this rank");
  }
  if (watch_ != nullptr) MILLRACE_RETURN_IF_ERROR(TakeError(watch_(user_)));
  return watchdog_ != nullptr ? watchdog_->Health() : absl::OkStatus();
}

// A broken connection tells the number that the rank has in the job: the same, for groups are not
// split.
absl::Status Group::Explain(const absl::Status& status) const {
  const std::optional<collectives::PeerLost> lost = collectives::PeerLostOf(status);
  if (watchdog_ == nullptr || !lost || lost->step >= 0) return status;
  return collectives::PeerLostError(watchdog_->LastSeen(lost->rank), std::string(status.message()));
}

absl::Status Group::CheckProcess(const char* call) const {
  if (IsHere()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(call, ": the group was made before this process was forked"));
}

bool Group::IsHere() const { return process_ == getpid(); }

}  // namespace millrace::capi
