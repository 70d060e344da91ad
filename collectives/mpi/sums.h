#ifndef MILLRACE_COLLECTIVES_MPI_SUMS_H_
#define MILLRACE_COLLECTIVES_MPI_SUMS_H_

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "collectives/communicator.h"
#include "collectives/mpi/connect_mpi.h"
#include "collectives/mpi/runtime.h"

namespace millrace::collectives {

// MPI's own sums over all ranks, on a communicator of theirs.
class MpiSums {
 public:
  // As MPI chooses. Collective.
  //   DEADLINE_EXCEEDED  a rank did not come within `timeout` (0: no limit); MPI is of no use then
  static absl::StatusOr<std::shared_ptr<MpiSums>> Make(std::shared_ptr<MpiRuntime> runtime,
                                                       std::chrono::nanoseconds timeout);
  // By Open MPI's segmented ring; null where a rank cannot force it. Collective; `communicator`, of
  // the same ranks, serves to agree on that. The timeout is the communicator's.
  static absl::StatusOr<std::shared_ptr<MpiSums>> MakeRing(std::shared_ptr<MpiRuntime> runtime,
                                                           Communicator& communicator);
  MpiSums(std::shared_ptr<MpiRuntime> runtime, MPI_Comm comm)
      : runtime_(std::move(runtime)), comm_(comm) {}
  ~MpiSums();
  MpiSums(const MpiSums&) = delete;
  MpiSums& operator=(const MpiSums&) = delete;

  // In place, in calls of at most `piece_bytes`; blocks until all ranks have come.
  absl::Status Sum(const TensorView& data, size_t piece_bytes) const;

 private:
  const std::shared_ptr<MpiRuntime> runtime_;
  MPI_Comm comm_;
};

// Who makes the sums of large data.
struct SumChoice {
  std::function<absl::Status(const TensorView& data)> native;  // null: our messages
  std::string reason;
};

// The same on every rank. `connect` makes messages between all ranks, for the probe alone; called
// only where there is something to try. RESOURCE_EXHAUSTED from it, on all ranks: nothing is.
absl::StatusOr<SumChoice> ChooseSums(
    const std::shared_ptr<MpiRuntime>& runtime, int size, const MpiOptions& options,
    const std::function<absl::StatusOr<std::unique_ptr<Communicator>>()>& connect);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MPI_SUMS_H_
