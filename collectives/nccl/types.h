#ifndef MILLRACE_COLLECTIVES_NCCL_TYPES_H_
#define MILLRACE_COLLECTIVES_NCCL_TYPES_H_

#include <climits>
#include <cstddef>

// The part of NCCL's binary interface that this library uses, declared again, so that building
// needs neither NCCL nor CUDA. Names and values are those of nccl.h, which NCCL keeps stable within
// version 2; tests/collectives/nccl/nccl_abi_test.cc compares them with the real header if there is
// one.

namespace millrace::collectives::nccl {

struct CommData;         // ncclComm
using Comm = CommData*;  // ncclComm_t
using Stream = void*;    // cudaStream_t

struct UniqueId {  // ncclUniqueId
  char bytes[128];
};

enum class Result : int {  // ncclResult_t
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum class DataType : int {  // ncclDataType_t
  kUint8 = 1,
  kInt32 = 2,
  kInt64 = 4,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};

// ncclRedOp_t. Operators made at run time have values from kFirstMade on.
enum class RedOp : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4, kFirstMade = 5 };

enum class ScalarResidence : int { kDevice = 0, kHostImmediate = 1 };  // ncclScalarResidence_t

inline constexpr int kUndefinedInt = INT_MIN;  // NCCL_CONFIG_UNDEF_INT

// ncclConfig_t as of 2.18. A newer library reads `size` bytes and takes its defaults for the fields
// that it has added behind them.
struct Config {
  size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21800;
  int blocking = kUndefinedInt;
  int cga_cluster_size = kUndefinedInt;
  int min_ctas = kUndefinedInt;
  int max_ctas = kUndefinedInt;
  const char* net_name = nullptr;
  int split_share = kUndefinedInt;
};

// The functions, by the names of nccl.h without "nccl".
using GetVersion = Result(int* version);
using GetUniqueId = Result(UniqueId* id);
using GetErrorString = const char*(Result result);
using GetLastError = const char*(Comm comm);
using CommInitRankConfig = Result(Comm* comm, int num_ranks, UniqueId id, int rank, Config* config);
using CommSplit = Result(Comm comm, int color, int key, Comm* child, Config* config);
using CommFinalize = Result(Comm comm);
using CommDestroy = Result(Comm comm);
using CommAbort = Result(Comm comm);
using CommGetAsyncError = Result(Comm comm, Result* async_error);
using GroupStart = Result();
using GroupEnd = Result();
using AllReduce = Result(const void* in, void* out, size_t count, DataType type, RedOp op,
                         Comm comm, Stream stream);
using ReduceScatter = Result(const void* in, void* out, size_t out_count, DataType type, RedOp op,
                             Comm comm, Stream stream);
using AllGather = Result(const void* in, void* out, size_t in_count, DataType type, Comm comm,
                         Stream stream);
using Broadcast = Result(const void* in, void* out, size_t count, DataType type, int root,
                         Comm comm, Stream stream);
using Reduce = Result(const void* in, void* out, size_t count, DataType type, RedOp op, int root,
                      Comm comm, Stream stream);
using Send = Result(const void* in, size_t count, DataType type, int peer, Comm comm,
                    Stream stream);
using Recv = Result(void* out, size_t count, DataType type, int peer, Comm comm, Stream stream);
using RedOpCreatePreMulSum = Result(RedOp* op, void* scalar, DataType type,
                                    ScalarResidence residence, Comm comm);
using RedOpDestroy = Result(RedOp op, Comm comm);
// Since 2.19.
using MemAlloc = Result(void** memory, size_t bytes);
using MemFree = Result(void* memory);
using CommRegister = Result(Comm comm, void* memory, size_t bytes, void** handle);
using CommDeregister = Result(Comm comm, void* handle);

}  // namespace millrace::collectives::nccl

#endif  // MILLRACE_COLLECTIVES_NCCL_TYPES_H_
