#ifndef MILLRACE_COLLECTIVES_NCCL_API_H_
#define MILLRACE_COLLECTIVES_NCCL_API_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/nccl/types.h"

namespace millrace::collectives::nccl {

// The oldest NCCL that has non-blocking communicators and can split them, as NCCL_VERSION_CODE.
inline constexpr int kOldestVersion = 21800;

// The functions of a loaded libnccl. A value type; the library stays loaded until the process ends,
// because NCCL's threads may outlive the last communicator.
struct Api {
  std::string library;  // the file, as it was loaded
  int version = 0;      // NCCL_VERSION_CODE: 22809 is 2.28.9

  GetUniqueId* get_unique_id = nullptr;
  GetErrorString* get_error_string = nullptr;
  GetLastError* get_last_error = nullptr;
  CommInitRankConfig* comm_init_rank_config = nullptr;
  CommSplit* comm_split = nullptr;
  CommFinalize* comm_finalize = nullptr;
  CommDestroy* comm_destroy = nullptr;
  CommAbort* comm_abort = nullptr;
  CommGetAsyncError* comm_get_async_error = nullptr;
  GroupStart* group_start = nullptr;
  GroupEnd* group_end = nullptr;
  AllReduce* all_reduce = nullptr;
  ReduceScatter* reduce_scatter = nullptr;
  AllGather* all_gather = nullptr;
  Broadcast* broadcast = nullptr;
  Reduce* reduce = nullptr;
  Send* send = nullptr;
  Recv* recv = nullptr;
  RedOpCreatePreMulSum* red_op_create_pre_mul_sum = nullptr;
  RedOpDestroy* red_op_destroy = nullptr;

  // All four are set, or none if the library lacks one of them.
  MemAlloc* mem_alloc = nullptr;
  MemFree* mem_free = nullptr;
  CommRegister* comm_register = nullptr;
  CommDeregister* comm_deregister = nullptr;

  bool can_register() const { return mem_alloc != nullptr; }
};

// "2.28.9" of 22809.
std::string VersionText(int version);

// Loads `library`; if that is empty, the file that MILLRACE_NCCL_LIBRARY names; if that is empty
// too, libnccl.so.2 as the dynamic linker finds it.
//   FAILED_PRECONDITION  no such library (names the attempts and their errors), an unsupported
//                        version (names it and the supported ones), or a missing function (named)
absl::StatusOr<std::shared_ptr<const Api>> LoadApi(const std::string& library);

// OK for kSuccess and kInProgress; else the error that `call` on `comm` (may be null) returned:
//   UNAVAILABLE          a system call or the network failed, or a peer is gone
//   INVALID_ARGUMENT     NCCL refused an argument
//   FAILED_PRECONDITION  kInvalidUsage, such as two ranks on one device
//   INTERNAL             CUDA or NCCL itself
absl::Status ToStatus(const Api& api, Result result, Comm comm, std::string_view call);

// True if ToStatus made it of kRemoteError: another rank, or the way to it, has failed, not this
// one. Also after Annotate.
bool IsRemote(const absl::Status& status);

}  // namespace millrace::collectives::nccl

#endif  // MILLRACE_COLLECTIVES_NCCL_API_H_
