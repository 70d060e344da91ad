#ifndef MILLRACE_COLLECTIVES_MPI_WORLD_H_
#define MILLRACE_COLLECTIVES_MPI_WORLD_H_

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/mpi/runtime.h"

namespace millrace::collectives {

// Transport's tags are below this. Groups have as many each.
inline constexpr uint32_t kTagsOfGroup = 32768;

struct Place {
  int rank = 0;
  int size = 1;
};

// The communicator of all ranks. Groups that are split from it use it too, by tags of their own: no
// call that makes another one has a deadline, while the ranks agree on a number by messages that
// do.
struct MpiWorld {
  MpiWorld(std::shared_ptr<MpiRuntime> runtime_in, MPI_Comm comm_in)
      : runtime(std::move(runtime_in)), comm(comm_in) {}
  ~MpiWorld() {
    if (!MpiIsFinalized() && runtime->usable()) MPI_Comm_free(&comm);
  }
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  // Makes the world of MPI_COMM_WORLD, with messages of its own. Collective.
  static absl::StatusOr<std::shared_ptr<MpiWorld>> Make(std::shared_ptr<MpiRuntime> runtime);
  absl::Status FindHost();

  const std::shared_ptr<MpiRuntime> runtime;
  MPI_Comm comm;
  Place place;
  std::vector<bool> on_host;  // by rank: true if this one shares memory with it
  uint32_t num_groups = 1;    // the groups that its tags suffice for
  uint32_t next_group = 1;    // a number that this rank has not seen
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MPI_WORLD_H_
