#ifndef MILLRACE_COLLECTIVES_MPI_RUNTIME_H_
#define MILLRACE_COLLECTIVES_MPI_RUNTIME_H_

#include <mpi.h>

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// MPI itself: started, ended, its errors.
namespace millrace::collectives {

#ifdef OMPI_MAJOR_VERSION
inline constexpr bool kIsOpenMpi = true;
#else
inline constexpr bool kIsOpenMpi = false;
#endif

// The error of an MPI call, with MPI's words.
absl::Status CheckMpi(int result, const char* call);

// MPI between Init and Finalize. Shared by all communicators; the last one drops it.
//
// MPI_Finalize waits for all ranks. After a failed operation, or while an exception unwinds this
// rank, the others may stand in a collective call that this one never joins, and both would wait
// for ever. So MPI is then left as it is: the launcher sees a rank that ends without finalising,
// and ends the job.
class MpiRuntime {
 public:
  // Sets the variables that MPI is to read in the environment when it starts; does nothing once it
  // has started. Call it before a thread is started for MPI's sake, which might read the
  // environment too. `local_size`: ranks on this host, 0: unknown.
  static void SetEnvironment(int local_size);
  // Starts MPI (FUNNELED) unless the program or an earlier call has: the runtime of that call is
  // shared as long as a caller has it. Where this call starts MPI, `on_unbounded` (may be empty) is
  // told "MPI_Finalize" before it and "" after it.
  //   FAILED_PRECONDITION  MPI was finalised already, or grants no FUNNELED
  //   UNAVAILABLE          MPI does not start
  static absl::StatusOr<std::shared_ptr<MpiRuntime>> Start(
      const std::function<void(std::string_view)>& on_unbounded);

  MpiRuntime(bool owned, std::function<void(std::string_view)> on_unbounded)
      : owned_(owned), on_unbounded_(std::move(on_unbounded)) {}
  ~MpiRuntime();
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;

  bool usable() const;
  void MarkBroken() { broken_ = true; }
  // CheckMpi of a call that peers take part in.
  absl::Status CheckShared(int result, const char* call);

 private:
  const bool owned_;  // true if this library called MPI_Init_thread
  const std::function<void(std::string_view)> on_unbounded_;
  bool broken_ = false;  // true once an operation failed, or the group was aborted
};

// True once MPI_Finalize was called: no other call may be made.
bool MpiIsFinalized();

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MPI_RUNTIME_H_
