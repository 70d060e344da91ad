// Loads libnccl at run time: most users do not have its 218 MB, so building or starting a program
// must not need it. It is loaded by name, and its version is checked before its functions are
// looked up, because an old library would otherwise only be reported as one that lacks a function.

#include "collectives/nccl/api.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/loaded_library.h"
#include "base/status.h"

namespace millrace::collectives::nccl {
namespace {

constexpr char kVariable[] = "MILLRACE_NCCL_LIBRARY";
constexpr char kDefaultLibrary[] = "libnccl.so.2";

// Payload of a status that IsRemote.
constexpr char kRemoteUrl[] = "type.millrace/nccl-remote-error";

absl::StatusOr<int> CheckVersion(const LoadedLibrary& library, const std::string& name) {
  GetVersion* get_version = nullptr;
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclGetVersion", get_version));
  int version = 0;
  if (get_version(&version) != Result::kSuccess) {
    return absl::FailedPreconditionError(
        absl::StrCat("NCCL library ", name, " does not tell its version (ncclGetVersion failed)"));
  }
  if (version >= kOldestVersion && version < 30000) return version;
  return absl::FailedPreconditionError(
      absl::StrCat("NCCL library ", name, " is version ", VersionText(version), "; wanted is ",
                   VersionText(kOldestVersion), " or a newer 2.x"));
}

absl::Status FindAll(const LoadedLibrary& library, Api& api) {
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclGetUniqueId", api.get_unique_id));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclGetErrorString", api.get_error_string));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclGetLastError", api.get_last_error));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclCommInitRankConfig", api.comm_init_rank_config));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclCommSplit", api.comm_split));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclCommFinalize", api.comm_finalize));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclCommDestroy", api.comm_destroy));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclCommAbort", api.comm_abort));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclCommGetAsyncError", api.comm_get_async_error));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclGroupStart", api.group_start));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclGroupEnd", api.group_end));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclAllReduce", api.all_reduce));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclReduceScatter", api.reduce_scatter));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclAllGather", api.all_gather));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclBroadcast", api.broadcast));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclReduce", api.reduce));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclSend", api.send));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclRecv", api.recv));
  MILLRACE_RETURN_IF_ERROR(library.Find("ncclRedOpCreatePreMulSum", api.red_op_create_pre_mul_sum));
  return library.Find("ncclRedOpDestroy", api.red_op_destroy);
}

// Leaves what the library lacks null.
void FindRegistration(const LoadedLibrary& library, Api& api) {
  library.Find("ncclMemAlloc", api.mem_alloc).IgnoreError();
  library.Find("ncclMemFree", api.mem_free).IgnoreError();
  library.Find("ncclCommRegister", api.comm_register).IgnoreError();
  library.Find("ncclCommDeregister", api.comm_deregister).IgnoreError();
  if (api.mem_free == nullptr || api.comm_register == nullptr || api.comm_deregister == nullptr) {
    api.mem_alloc = nullptr;
  }
}

absl::StatusCode CodeOf(Result result) {
  switch (result) {
    case Result::kSystemError:
    case Result::kRemoteError:
      return absl::StatusCode::kUnavailable;
    case Result::kInvalidArgument:
      return absl::StatusCode::kInvalidArgument;
    case Result::kInvalidUsage:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

std::string VersionText(int version) {
  // Up to 2.8 the code was major * 1000 + minor * 100 + patch.
  const int major_step = version < 10000 ? 1000 : 10000;
  return absl::StrCat(version / major_step, ".", version % major_step / 100, ".", version % 100);
}

absl::StatusOr<std::shared_ptr<const Api>> LoadApi(const std::string& library) {
  const LibraryChoice choice = ChooseLibrary(library, kVariable, kDefaultLibrary);
  MILLRACE_ASSIGN_OR_RETURN(
      const LoadedLibrary loaded,
      LoadedLibrary::Load(choice.library,
                          absl::StrCat("no NCCL: tried ", choice.library, " (", choice.why, ")"),
                          absl::StrCat("name the library with the option or ", kVariable)));
  auto api = std::make_shared<Api>();
  api->library = choice.library;
  MILLRACE_ASSIGN_OR_RETURN(api->version, CheckVersion(loaded, choice.library));
  MILLRACE_RETURN_IF_ERROR(FindAll(loaded, *api));
  FindRegistration(loaded, *api);
  return api;
}

absl::Status ToStatus(const Api& api, Result result, Comm comm, std::string_view call) {
  if (result == Result::kSuccess || result == Result::kInProgress) return absl::OkStatus();
  const char* const detail = api.get_last_error(comm);
  const bool has_detail = detail != nullptr && *detail != '\0';
  absl::Status status(CodeOf(result),
                      absl::StrCat(ToAbsl(call), ": ", api.get_error_string(result),
                                   has_detail ? ": " : "", has_detail ? detail : ""));
  if (result == Result::kRemoteError) status.SetPayload(kRemoteUrl, absl::Cord());
  return status;
}

bool IsRemote(const absl::Status& status) { return status.GetPayload(kRemoteUrl).has_value(); }

}  // namespace millrace::collectives::nccl
