// A program that starts MPI by MPI_Init, which promises it no thread but one: Connect refuses that
// MPI on every rank, and leaves it to its owner. Exits 0 when so, 77 where this MPI grants
// MPI_THREAD_FUNNELED all the same.
#include <mpi.h>

#include <iostream>

#include "absl/strings/match.h"
#include "collectives/factory.h"

namespace millrace::collectives {
namespace {

constexpr int kSkipped = 77;

bool IsRefused() {
  ConnectOptions options;
  options.backend = "mpi";
  const absl::Status status = Connect(options).status();
  const bool says = absl::IsFailedPrecondition(status) &&
                    absl::StrContains(status.message(), "does not grant MPI_THREAD_FUNNELED");
  if (!says) std::cerr << status << "\n";
  return says;
}

int Check() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  if (provided >= MPI_THREAD_FUNNELED) return kSkipped;
  // The second time it is not taken for one that the first call has started. A rank that has got a
  // communicator all the same must not wait for the others.
  for (int i = 0; i < 2; ++i) {
    if (!IsRefused()) MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : 1;
}

}  // namespace
}  // namespace millrace::collectives

int main() {
  if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) return 1;
  const int code = millrace::collectives::Check();
  MPI_Finalize();
  return code;
}
