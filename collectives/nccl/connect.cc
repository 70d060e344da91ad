// Connects the ranks of a group in NCCL: rank 0's id goes to all over another network, where the
// ranks also exchange their errors. A rank without a library or a device would otherwise leave the
// others waiting in ncclCommInitRank.

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/nccl/on_device.h"

namespace millrace::collectives {
namespace nccl {
namespace {

// The parts that a rank needs to connect.
struct Start {
  std::shared_ptr<const Api> api;
  std::unique_ptr<DeviceQueue> queue;
  // Rank 0's, and its version: from all ranks to be compared.
  struct {
    UniqueId id = {};
    int version = 0;
  } first;
};

absl::StatusOr<Start> Prepare(int rank, const NcclOptions& options, const MakeQueue& make_queue) {
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  Start start;
  MILLRACE_ASSIGN_OR_RETURN(start.queue, make_queue());
  MILLRACE_ASSIGN_OR_RETURN(start.api, LoadApi(options.library));
  if (rank != 0) return start;
  start.first.version = start.api->version;
  MILLRACE_RETURN_IF_ERROR(start.queue->OnDevice([&start] {
    return ToStatus(*start.api, start.api->get_unique_id(&start.first.id), nullptr,
                    "ncclGetUniqueId");
  }));
  return start;
}

absl::Status CheckVersion(const Start& start) {
  if (start.api->version == start.first.version) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("version ", VersionText(start.api->version),
                                                    " (", start.api->library, "), but rank 0 has ",
                                                    VersionText(start.first.version)));
}

absl::Status ShareId(Communicator& side, Start& start) {
  Request request;
  request.kind = Collective::kBroadcast;
  request.out = {&start.first, DType::kU8, Shape{sizeof(start.first)}};
  request.in = request.out;
  request.agreed = true;
  MILLRACE_RETURN_IF_ERROR(Annotate(side.Run(request), "the network beside NCCL"));
  return AgreeOnOutcome(side, CheckVersion(start));
}

}  // namespace

Config MakeConfig(const NcclOptions& options) {
  Config config;
  config.blocking = 0;
  if (options.min_ctas > 0) config.min_ctas = options.min_ctas;
  if (options.max_ctas > 0) config.max_ctas = options.max_ctas;
  return config;
}

absl::StatusOr<std::unique_ptr<NcclCommunicator>> MakeNcclOn(Communicator& bootstrap,
                                                             const NcclOptions& options,
                                                             const MakeQueue& make_queue) {
  const int rank = bootstrap.rank();
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> side, bootstrap.Split(0, rank));
  absl::StatusOr<Start> start = Prepare(rank, options, make_queue);
  // The slowest rank may come to the last exchange a connect_timeout after the first.
  if (start.ok()) side->set_timeout(2 * options.connect_timeout);
  MILLRACE_RETURN_IF_ERROR(AgreeOnOutcome(*side, start.status()));
  MILLRACE_RETURN_IF_ERROR(ShareId(*side, *start));
  auto session = std::make_shared<Session>(start->api, std::move(start->queue));
  MILLRACE_RETURN_IF_ERROR(AgreeOnOutcome(
      *side, session->Connect(rank, side->size(), start->first.id, MakeConfig(options),
                              Deadline({options.connect_timeout, bootstrap.limits().watch}))));
  auto made = MakeCommunicator(std::move(session), std::move(side), options);
  made->set_limits(bootstrap.limits());
  return made;
}

}  // namespace nccl

absl::Status NcclOptions::Validate() const {
  if (device < -1) return absl::InvalidArgumentError(absl::StrCat("device ", device));
  if (connect_timeout.count() <= 0) {
    return absl::InvalidArgumentError("connect_timeout is not positive");
  }
  if (min_ctas < 0) return absl::InvalidArgumentError(absl::StrCat("min_ctas ", min_ctas));
  if (max_ctas < 0 || (max_ctas > 0 && max_ctas < min_ctas)) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_ctas ", max_ctas, " with min_ctas ", min_ctas));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NcclCommunicator>> MakeNccl(Communicator& bootstrap,
                                                           const NcclOptions& options) {
  const int ordinal = options.device >= 0 ? options.device : bootstrap.local_rank();
  return nccl::MakeNcclOn(bootstrap, options,
                          [&] { return MakeCudaQueue(ordinal, options.stream); });
}

}  // namespace millrace::collectives
