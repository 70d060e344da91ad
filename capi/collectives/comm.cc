#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"
#include "capi/collectives/group.h"
#include "capi/millrace_collectives.h"
#include "collectives/factory.h"
#include "collectives/peer_lost.h"

namespace millrace::capi {
namespace {

using collectives::Communicator;
using collectives::ReduceOp;

constexpr bool Same(ReduceOp op, mr_reduction number) { return static_cast<int>(op) == number; }
static_assert(Same(ReduceOp::kSum, MR_SUM));
static_assert(Same(ReduceOp::kProduct, MR_PRODUCT));
static_assert(Same(ReduceOp::kMin, MR_MIN));
static_assert(Same(ReduceOp::kMax, MR_MAX));
static_assert(Same(ReduceOp::kAverage, MR_AVERAGE));

// Calls `body` with the communicator of a group.
template <typename Body>
mr_error* With(const char* call, const mr_comm* comm, const Body& body) {
  return Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(CheckGiven(call, {{"comm", comm != nullptr}}));
    MILLRACE_RETURN_IF_ERROR(comm->group->CheckProcess(call));
    return comm->group->Explain(body(comm->group->communicator()));
  });
}

//   INVALID_ARGUMENT  there is no such type, or too many elements
absl::StatusOr<TensorView> ViewOf(void* data, int32_t dtype, uint64_t count) {
  if (data == nullptr && count > 0) return absl::InvalidArgumentError("data is NULL");
  if (dtype <= MR_BYTES || dtype > MR_FLOAT64) {
    return absl::InvalidArgumentError(absl::StrCat("dtype ", dtype, " is none of numbers"));
  }
  if (count > uint64_t{1} << 60) {
    return absl::InvalidArgumentError(absl::StrCat(count, " elements are too many"));
  }
  return TensorView{data, static_cast<DType>(dtype), Shape{static_cast<int64_t>(count)}};
}

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;
namespace collectives = millrace::collectives;

mr_error* mr_comm_connect(const mr_comm_options* options, mr_comm** comm, mr_sink reason,
                          void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_comm_connect", {{"comm", comm != nullptr}}));
    mr_comm_options taken;
    MILLRACE_RETURN_IF_ERROR(capi::Take(options, "mr_comm_options", taken));
    std::string why;
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<capi::Group> group,
                              capi::Group::Connect(taken, &why));
    *comm = new mr_comm{std::move(group)};
    if (reason != nullptr) capi::Pour(why, reason, user);
    return absl::OkStatus();
  });
}

mr_error* mr_comm_threads(int32_t size, int64_t timeout_ns, mr_comm** comms) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_comm_threads", {{"comms", comms != nullptr}}));
    if (size < 1 || timeout_ns < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("mr_comm_threads: ", size, " ranks with a limit of ", timeout_ns, " ns"));
    }
    std::vector<std::unique_ptr<mr_comm>> made;
    for (auto& rank : collectives::MakeThreadGroup(size)) {
      rank->set_timeout(std::chrono::nanoseconds(timeout_ns));
      made.push_back(std::make_unique<mr_comm>(std::make_shared<capi::Group>(std::move(rank))));
    }
    for (auto& rank : made) *comms++ = rank.release();
    return absl::OkStatus();
  });
}

mr_error* mr_comm_get_place(const mr_comm* comm, mr_comm_place* place) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_comm_get_place", {{"comm", comm != nullptr}, {"place", place != nullptr}}));
    const collectives::Communicator& ranks = comm->group->communicator();
    mr_comm_place filled = {};
    filled.rank = ranks.rank();
    filled.size = ranks.size();
    filled.local_rank = ranks.local_rank();
    filled.local_size = ranks.local_size();
    filled.backend = comm->group->backend();
    return capi::Give(filled, place, "mr_comm_place");
  });
}

int32_t mr_comm_rank(const mr_comm* comm) {
  return comm == nullptr ? -1 : comm->group->communicator().rank();
}

int32_t mr_comm_size(const mr_comm* comm) {
  return comm == nullptr ? -1 : comm->group->communicator().size();
}

mr_error* mr_comm_allreduce(mr_comm* comm, void* data, int32_t dtype, uint64_t count,
                            int32_t reduction) {
  return capi::With("mr_comm_allreduce", comm, [&](capi::Communicator& ranks) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const millrace::TensorView view, capi::ViewOf(data, dtype, count));
    if (reduction < MR_SUM || reduction > MR_AVERAGE) {
      return absl::InvalidArgumentError(absl::StrCat("there is no reduction ", reduction));
    }
    return ranks.AllReduce(view, static_cast<collectives::ReduceOp>(reduction));
  });
}

mr_error* mr_comm_broadcast(mr_comm* comm, void* data, int32_t dtype, uint64_t count,
                            int32_t root) {
  return capi::With("mr_comm_broadcast", comm, [&](capi::Communicator& ranks) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const millrace::TensorView view, capi::ViewOf(data, dtype, count));
    return ranks.Broadcast(view, root);
  });
}

mr_error* mr_comm_barrier(mr_comm* comm) {
  return capi::With("mr_comm_barrier", comm,
                    [](capi::Communicator& ranks) { return ranks.Barrier(); });
}

mr_error* mr_comm_abort(mr_comm* comm, const char* message) {
  return capi::With("mr_comm_abort", comm, [&](capi::Communicator& ranks) {
    ranks.Abort(absl::AbortedError(message == nullptr ? "" : message));
    return absl::OkStatus();
  });
}

mr_error* mr_comm_leave(mr_comm* comm, const char* message) {
  return capi::With("mr_comm_leave", comm, [&](capi::Communicator& ranks) {
    comm->group->Leave(
        collectives::PeerLostError({.rank = ranks.rank()}, message == nullptr ? "" : message));
    return absl::OkStatus();
  });
}

void mr_comm_cancel(mr_comm* comm) {
  if (comm != nullptr) comm->group->Cancel();
}

void mr_comm_free(mr_comm* comm) { capi::FreeHere(comm); }
