// In the place of MPI's functions that move data: none may be called but by the thread that started
// MPI, which is all that MPI_THREAD_FUNNELED grants. An MPI that bears more would not tell.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

namespace {

void ExpectMainThread(const char* call) {
  int is_main = 0;
  if (PMPI_Is_thread_main(&is_main) == MPI_SUCCESS && is_main != 0) return;
  std::fprintf(stderr, "%s is called by a thread that did not start MPI\n", call);
  std::abort();
}

}  // namespace

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ExpectMainThread("MPI_Isend");
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ExpectMainThread("MPI_Irecv");
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  ExpectMainThread("MPI_Test");
  return PMPI_Test(request, done, status);
}
