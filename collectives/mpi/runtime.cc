#include "collectives/mpi/runtime.h"

#include <cstdlib>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host.h"
#include "base/status.h"

namespace millrace::collectives {
namespace {

absl::StatusCode CodeOf(int error_class) {
  switch (error_class) {
    case MPI_ERR_BUFFER:
    case MPI_ERR_COUNT:
    case MPI_ERR_TYPE:
    case MPI_ERR_OP:
    case MPI_ERR_ROOT:
    case MPI_ERR_RANK:
    case MPI_ERR_TRUNCATE:
      return absl::StatusCode::kInvalidArgument;
    case MPI_ERR_NO_MEM:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

absl::Status CheckMpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return absl::OkStatus();
  int error_class = MPI_ERR_UNKNOWN;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_class(result, &error_class);
  MPI_Error_string(result, text, &length);
  return absl::Status(CodeOf(error_class), absl::StrCat(call, ": ", text));
}

MpiRuntime::~MpiRuntime() {
  if (!owned_ || !usable()) return;
  if (on_unbounded_) on_unbounded_("MPI_Finalize");
  MPI_Finalize();  // nobody is left to hear of a failure
  if (on_unbounded_) on_unbounded_("");
}

absl::Status MpiRuntime::CheckShared(int result, const char* call) {
  absl::Status status = CheckMpi(result, call);
  if (absl::IsUnavailable(status)) MarkBroken();
  return status;
}

bool MpiRuntime::usable() const { return !broken_ && std::uncaught_exceptions() == 0; }

// Open MPI waits by spinning. With more ranks than cores that takes the core from the rank it waits
// for. A setting of the user stays.
void MpiRuntime::SetEnvironment(int local_size) {
  int initialized = 0;
  if (MPI_Initialized(&initialized) != MPI_SUCCESS || initialized != 0) return;
  if (local_size > ReadCores().usable) setenv("OMPI_MCA_mpi_yield_when_idle", "1", /*replace=*/0);
}

absl::StatusOr<std::shared_ptr<MpiRuntime>> MpiRuntime::Start(
    const std::function<void(std::string_view)>& on_unbounded) {
  // Only the thread that initialises MPI comes here. All callers share one owner: a caller that
  // dropped the first one would else finalise MPI under the second.
  static std::weak_ptr<MpiRuntime> started;
  int finalized = 0;
  MILLRACE_RETURN_IF_ERROR(CheckMpi(MPI_Finalized(&finalized), "MPI_Finalized"));
  if (finalized != 0) {
    return absl::FailedPreconditionError("MPI was finalised and cannot be started again");
  }
  if (auto running = started.lock(); running != nullptr) return running;
  int initialized = 0;
  MILLRACE_RETURN_IF_ERROR(CheckMpi(MPI_Initialized(&initialized), "MPI_Initialized"));
  int provided = MPI_THREAD_SINGLE;
  if (initialized != 0) {
    MILLRACE_RETURN_IF_ERROR(CheckMpi(MPI_Query_thread(&provided), "MPI_Query_thread"));
  } else {
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
      return absl::UnavailableError("MPI_Init_thread failed");
    }
  }
  auto runtime = std::make_shared<MpiRuntime>(initialized == 0, on_unbounded);
  started = runtime;
  if (provided < MPI_THREAD_FUNNELED) {
    return absl::FailedPreconditionError("MPI does not grant MPI_THREAD_FUNNELED");
  }
  if (initialized == 0) {
    for (const MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF}) {
      MILLRACE_RETURN_IF_ERROR(
          CheckMpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    }
  }
  return runtime;
}

bool MpiIsFinalized() {
  int finalized = 0;
  return MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0;
}

}  // namespace millrace::collectives
