// MPI's own sum where that is faster.
//
// It has the bits of ours only between two ranks (a + b is b + a in IEEE 754; the payload of a NaN
// aside): there a probe at the start decides. With three ranks and more MPI sums in an order that
// depends on size, placement and version, a ring's differs from element to element, and what a
// clock chooses would change the bits from run to run; so all sums are ours.
//
// One default call of Open MPI over 102 MB takes twice as long as calls over 2 MiB, because the
// large one faults in a temporary of half the data each time; so MPI gets pieces. Its segmented
// ring needs no such temporary, but one call passes all the data twice (it reduces, then gathers),
// which took 3 to 15 % longer than calls over 2 MiB; so it gets pieces too, of several segments.
#include "collectives/mpi/sums.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "collectives/mpi/sum_probe.h"
#include "collectives/mpi/tuned.h"

namespace millrace::collectives {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kRingPieceBytes = 4 * kMiB;

MPI_Datatype TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kI32:
      return MPI_INT32_T;
    case DType::kI64:
      return MPI_INT64_T;
    case DType::kF32:
      return MPI_FLOAT;
    case DType::kF64:
      return MPI_DOUBLE;
    default:
      return MPI_UINT8_T;  // 16-bit floats are not summed by MPI
  }
}

absl::Status Await(MpiRuntime& runtime, MPI_Request request, std::chrono::nanoseconds timeout) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    int ended = 0;
    MILLRACE_RETURN_IF_ERROR(
        runtime.CheckShared(MPI_Test(&request, &ended, MPI_STATUS_IGNORE), "MPI_Test"));
    if (ended != 0) return absl::OkStatus();
    if (timeout.count() > 0 && std::chrono::steady_clock::now() - begin > timeout) break;
    sched_yield();
  }
  runtime.MarkBroken();
  return absl::DeadlineExceededError(
      absl::StrFormat("a rank did not come within %d ms: MPI_Comm_idup",
                      std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count()));
}

// MPI_Comm_dup has no deadline, so MPI_Comm_idup. Algorithms are forced until it has ended.
absl::StatusOr<MPI_Comm> DuplicateWorld(MpiRuntime& runtime, std::chrono::nanoseconds timeout) {
  auto comm = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  MILLRACE_RETURN_IF_ERROR(
      runtime.CheckShared(MPI_Comm_idup(MPI_COMM_WORLD, comm.get(), &request), "MPI_Comm_idup"));
  const absl::Status came = Await(runtime, request, timeout);
  if (came.ok()) return *comm;
  (void)comm.release();  // written to whenever the last rank comes
  return came;
}

// The slower rank's time, so that all ranks decide alike.
absl::StatusOr<double> TimeMs(Communicator& communicator,
                              const std::function<absl::Status()>& reduce) {
  MILLRACE_RETURN_IF_ERROR(communicator.Barrier());
  const auto begin = std::chrono::steady_clock::now();
  MILLRACE_RETURN_IF_ERROR(reduce());
  double time =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  MILLRACE_RETURN_IF_ERROR(communicator.AllReduce({&time, DType::kF64, Shape{1}}, ReduceOp::kMax));
  return time;
}

// One of MPI's ways.
struct Way {
  std::shared_ptr<MpiSums> sums;
  size_t piece_bytes = 0;
  std::string name;

  absl::Status operator()(const TensorView& data) const { return sums->Sum(data, piece_bytes); }
};

Way InCalls(std::shared_ptr<MpiSums> sums, size_t piece_bytes) {
  return {std::move(sums), piece_bytes, absl::StrCat("over ", piece_bytes / kMiB, " MiB")};
}

absl::StatusOr<std::vector<Way>> MpisWays(const std::shared_ptr<MpiRuntime>& runtime,
                                          Communicator& communicator) {
  std::vector<Way> ways;
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<MpiSums> sums,
                            MpiSums::Make(runtime, communicator.timeout()));
  for (const size_t piece_bytes : {kMiB, 2 * kMiB}) ways.push_back(InCalls(sums, piece_bytes));
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<MpiSums> ring,
                            MpiSums::MakeRing(runtime, communicator));
  if (ring != nullptr) ways.push_back({std::move(ring), kRingPieceBytes, "by the segmented ring"});
  return ways;
}

// Sums a few MiB in each way. Nothing interrupts MPI's.
absl::StatusOr<SumChoice> Probe(Communicator& communicator, const std::vector<Way>& ways,
                                const std::function<void(std::string_view)>& on_unbounded) {
  constexpr size_t kBytes = 4 * kMiB;
  std::vector<float> memory(kBytes / sizeof(float));
  const TensorView data{memory.data(), DType::kF32, Shape{static_cast<int64_t>(memory.size())}};
  const auto timed = [&](std::function<absl::Status()> reduce) -> TimeOneSum {
    return [&communicator, reduce = std::move(reduce)] { return TimeMs(communicator, reduce); };
  };
  std::vector<TimedWay> mpis;
  for (const Way& way : ways) mpis.push_back({way.name, timed([&] { return way(data); })});
  const auto by_messages = [&] { return communicator.AllReduce(data, ReduceOp::kSum); };
  MILLRACE_ASSIGN_OR_RETURN(const double ours, MedianMs(timed(by_messages)));
  if (on_unbounded) on_unbounded("the probe of MPI's sums");
  MILLRACE_ASSIGN_OR_RETURN(const WayChoice choice, ChooseWay(ours, mpis));
  if (on_unbounded) on_unbounded("");
  const std::string took = absl::StrFormat("(%d MiB took %.2f ms by messages; by MPI_Allreduce %s)",
                                           kBytes / kMiB, ours, choice.times);
  if (!choice.way) return SumChoice{nullptr, absl::StrCat("sums by messages ", took)};
  const Way& chosen = ways[*choice.way];
  return SumChoice{chosen, absl::StrCat("sums by MPI_Allreduce ", chosen.name, " ", took)};
}

}  // namespace

absl::StatusOr<std::shared_ptr<MpiSums>> MpiSums::Make(std::shared_ptr<MpiRuntime> runtime,
                                                       std::chrono::nanoseconds timeout) {
  MILLRACE_ASSIGN_OR_RETURN(const MPI_Comm comm, DuplicateWorld(*runtime, timeout));
  const auto sums = std::make_shared<MpiSums>(std::move(runtime), comm);
  MILLRACE_RETURN_IF_ERROR(
      CheckMpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  return sums;
}

// A ring on one rank only would wait for ever for what the other does not send.
absl::StatusOr<std::shared_ptr<MpiSums>> MpiSums::MakeRing(std::shared_ptr<MpiRuntime> runtime,
                                                           Communicator& communicator) {
  std::optional<ForcedRing> forced;
  if (runtime->has_tuned_control()) forced.emplace();
  int32_t can = forced.has_value() && forced->ok() ? 1 : 0;
  MILLRACE_RETURN_IF_ERROR(communicator.AllReduce({&can, DType::kI32, Shape{1}}, ReduceOp::kMin));
  if (can == 0) return std::shared_ptr<MpiSums>();
  return Make(std::move(runtime), communicator.timeout());
}

MpiSums::~MpiSums() {
  if (!MpiIsFinalized() && runtime_->usable()) MPI_Comm_free(&comm_);
}

absl::Status MpiSums::Sum(const TensorView& data, size_t piece_bytes) const {
  const size_t element = SizeOf(data.dtype);
  for (size_t at = 0; at < data.size_bytes(); at += piece_bytes) {
    const size_t bytes = std::min(piece_bytes, data.size_bytes() - at);
    MILLRACE_RETURN_IF_ERROR(runtime_->CheckShared(
        MPI_Allreduce(MPI_IN_PLACE, static_cast<std::byte*>(data.data) + at,
                      static_cast<int>(bytes / element), TypeOf(data.dtype), MPI_SUM, comm_),
        "MPI_Allreduce"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SumChoice> ChooseSums(
    const std::shared_ptr<MpiRuntime>& runtime, int size, const MpiOptions& options,
    const std::function<absl::StatusOr<std::unique_ptr<Communicator>>()>& connect) {
  if (options.sums == MpiOptions::Sums::kOurs) return SumChoice{{}, "sums by messages (exact)"};
  if (size == 1) return SumChoice{{}, "one rank"};
  if (size > 2) {
    return SumChoice{{}, "sums by messages (MPI's have other bits with 3 ranks or more)"};
  }
  if (options.sums == MpiOptions::Sums::kUnprobed) {
    return SumChoice{{}, "sums by messages (MPI's are not probed)"};
  }
  if (options.sums == MpiOptions::Sums::kNative) {
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<MpiSums> sums,
                              MpiSums::Make(runtime, options.timeout));
    return SumChoice{InCalls(std::move(sums), options.transport.piece_bytes),
                     "sums by MPI_Allreduce (asked for)"};
  }
  const absl::StatusOr<std::unique_ptr<Communicator>> communicator = connect();
  if (absl::IsResourceExhausted(communicator.status())) {
    return SumChoice{{}, "sums by messages (this MPI has no tags for a probe)"};
  }
  MILLRACE_RETURN_IF_ERROR(communicator.status());
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Way> ways, MpisWays(runtime, **communicator));
  if (options.sums == MpiOptions::Sums::kProbed) {
    return Probe(**communicator, ways, options.on_unbounded);
  }
  if (ways.back().piece_bytes != kRingPieceBytes) {
    return SumChoice{{}, "sums by messages (this MPI lets nobody force its segmented ring)"};
  }
  return SumChoice{ways.back(), "sums by MPI_Allreduce by the segmented ring (asked for)"};
}

}  // namespace millrace::collectives
