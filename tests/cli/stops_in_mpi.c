// Preloaded into the ranks of an MPI job: rank 1 stops itself where it makes the call that STOPS_IN
// names. In C, which no preset instruments: a sanitizer's own library would have to come first.
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void StopIn(const char* call) {
  const char* wanted = getenv("STOPS_IN");
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1 && wanted != NULL && strcmp(wanted, call) == 0) raise(SIGSTOP);
}

int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  StopIn("MPI_Allreduce");
  return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Finalize(void) {
  StopIn("MPI_Finalize");
  return PMPI_Finalize();
}
