// The last rank of an MPI job does not come to a sum, and then to a split, before the others' time is
// over. All must get DEADLINE_EXCEEDED, and the others the name of the late one. The program owns MPI: it starts and
// ends it, and what was ended cannot be started again. Exits 0 when everything was as it should be.
#include <mpi.h>

#include <chrono>
#include <functional>
#include <iostream>

#include "collectives/mpi_internal.h"
#include "tests/collectives/test_buffer.h"

namespace millrace::collectives {
namespace {

constexpr int kTag = 5;

absl::Status WithTheLastRankLate(Communicator& comm,
                                 const std::function<absl::Status(Communicator&)>& call) {
  const int late = comm.size() - 1;
  char word = 0;
  if (comm.rank() == late) {
    for (int rank = 0; rank < late; ++rank) {
      MPI_Recv(&word, 1, MPI_CHAR, rank, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  const absl::Status outcome = call(comm);
  if (comm.rank() != late) MPI_Send(&word, 1, MPI_CHAR, late, kTag, MPI_COMM_WORLD);
  if (!absl::IsDeadlineExceeded(outcome)) return Fail(outcome.ToString());
  const std::string name = absl::StrCat("rank ", late, " did not come");
  const bool named = outcome.message().find(name) != absl::string_view::npos;
  return named || comm.rank() == late ? absl::OkStatus() : Fail(outcome.ToString());
}

absl::Status Run() {
  MILLRACE_ASSIGN_OR_RETURN(MpiLaunch first, ConnectMpi({}));
  MILLRACE_ASSIGN_OR_RETURN(MpiLaunch second, ConnectMpi({}));
  MILLRACE_RETURN_IF_ERROR(second.communicator->Barrier());
  for (Communicator* const comm : {first.communicator.get(), second.communicator.get()}) {
    comm->set_timeout(std::chrono::milliseconds(1000));
  }
  MILLRACE_RETURN_IF_ERROR(WithTheLastRankLate(*first.communicator, [](Communicator& comm) {
    Buffer data(DType::kF32, 300007, comm.rank());
    return comm.AllReduce(data.view(), ReduceOp::kSum);
  }));
  return WithTheLastRankLate(*second.communicator,
                             [](Communicator& comm) { return comm.Split(0, 0).status(); });
}

}  // namespace
}  // namespace millrace::collectives

int main() {
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return 1;
  absl::Status status = millrace::collectives::Run();
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  const absl::Status again = millrace::collectives::ConnectMpi({}).status();
  if (!absl::IsFailedPrecondition(again)) status = again;
  if (status.ok()) return 0;
  std::cerr << status << "\n";
  return 1;
}
