// That collectives/nccl/types.h says what NCCL's own header says. All of it is checked by the
// compiler.
#include <nccl.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "collectives/nccl/types.h"
#include "gmock/gmock.h"

namespace millrace::collectives::nccl {
namespace {

// Two types that are passed in the same way.
template <typename A, typename B>
constexpr bool kSame = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
                       std::is_class_v<A> == std::is_class_v<B> &&
                       std::is_floating_point_v<A> == std::is_floating_point_v<B>;

template <typename F, typename G>
constexpr bool kSameCall = false;
template <typename R, typename... A, typename S, typename... B>
  requires(sizeof...(A) == sizeof...(B))
constexpr bool kSameCall<R(A...), S(B...)> = kSame<R, S> && (kSame<A, B> && ...);

#define MILLRACE_SAME_CALL(name) static_assert(kSameCall<decltype(::nccl##name), name>)
MILLRACE_SAME_CALL(GetVersion);
MILLRACE_SAME_CALL(GetUniqueId);
MILLRACE_SAME_CALL(GetErrorString);
MILLRACE_SAME_CALL(GetLastError);
MILLRACE_SAME_CALL(CommInitRankConfig);
MILLRACE_SAME_CALL(CommSplit);
MILLRACE_SAME_CALL(CommFinalize);
MILLRACE_SAME_CALL(CommDestroy);
MILLRACE_SAME_CALL(CommAbort);
MILLRACE_SAME_CALL(CommGetAsyncError);
MILLRACE_SAME_CALL(GroupStart);
MILLRACE_SAME_CALL(GroupEnd);
MILLRACE_SAME_CALL(AllReduce);
MILLRACE_SAME_CALL(ReduceScatter);
MILLRACE_SAME_CALL(AllGather);
MILLRACE_SAME_CALL(Broadcast);
MILLRACE_SAME_CALL(Reduce);
MILLRACE_SAME_CALL(Send);
MILLRACE_SAME_CALL(Recv);
MILLRACE_SAME_CALL(RedOpCreatePreMulSum);
MILLRACE_SAME_CALL(RedOpDestroy);
MILLRACE_SAME_CALL(MemAlloc);
MILLRACE_SAME_CALL(MemFree);
MILLRACE_SAME_CALL(CommRegister);
MILLRACE_SAME_CALL(CommDeregister);
#undef MILLRACE_SAME_CALL

template <typename Ours, typename Theirs>
constexpr bool Is(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs) && sizeof(Ours) == sizeof(Theirs);
}

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(Is(Result::kSuccess, ncclSuccess));
static_assert(Is(Result::kUnhandledCudaError, ncclUnhandledCudaError));
static_assert(Is(Result::kSystemError, ncclSystemError));
static_assert(Is(Result::kInternalError, ncclInternalError));
static_assert(Is(Result::kInvalidArgument, ncclInvalidArgument));
static_assert(Is(Result::kInvalidUsage, ncclInvalidUsage));
static_assert(Is(Result::kRemoteError, ncclRemoteError));
static_assert(Is(Result::kInProgress, ncclInProgress));
static_assert(Is(DataType::kUint8, ncclUint8));
static_assert(Is(DataType::kInt32, ncclInt32));
static_assert(Is(DataType::kInt64, ncclInt64));
static_assert(Is(DataType::kFloat16, ncclFloat16));
static_assert(Is(DataType::kFloat32, ncclFloat32));
static_assert(Is(DataType::kFloat64, ncclFloat64));
static_assert(Is(DataType::kBfloat16, ncclBfloat16));
static_assert(Is(RedOp::kSum, ncclSum));
static_assert(Is(RedOp::kProd, ncclProd));
static_assert(Is(RedOp::kMax, ncclMax));
static_assert(Is(RedOp::kMin, ncclMin));
static_assert(Is(RedOp::kAvg, ncclAvg));
static_assert(Is(RedOp::kFirstMade, ncclNumOps));
static_assert(Is(ScalarResidence::kDevice, ncclScalarDevice));
static_assert(Is(ScalarResidence::kHostImmediate, ncclScalarHostImmediate));
static_assert(kUndefinedInt == NCCL_CONFIG_UNDEF_INT);

// Ours is the beginning of theirs.
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(Config, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(Config, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(Config, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(Config, split_share) == offsetof(ncclConfig_t, splitShare));

TEST(NcclAbi, AnUntouchedConfigBeginsAsNcclsDoes) {
  Config ours;
  ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  theirs.size = ours.size;
  theirs.version = ours.version;
  const size_t end = offsetof(Config, split_share) + sizeof(ours.split_share);
  EXPECT_EQ(std::memcmp(&ours, &theirs, end), 0);
}

}  // namespace
}  // namespace millrace::collectives::nccl
