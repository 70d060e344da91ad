// Ranks as processes of an MPI job.
//
// Every call is checked (MPI_ERRORS_RETURN) and none is larger than MpiTuning allows. AllReduce
// goes in chunks of 1 MiB: one default call of Open MPI over a ResNet-50 gradient (102 MB, two
// ranks) takes 29-36 ms, chunks 11-15 ms, because the call faults in a temporary of half the data
// each time. Chunks also keep every count below INT_MAX.
//
// The same bits on every rank: MPI's sums are either computed once and sent around, or pairwise on
// both sides, where a + b and b + a have the same bits. Minimum and maximum of floats lack that
// (-0 and +0, NaN), so they are reduced to rank 0 and broadcast.

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/host.h"
#include "base/status.h"
#include "collectives/checks_internal.h"
#include "collectives/mpi_internal.h"
#include "collectives/reduce_internal.h"

namespace millrace::collectives {
namespace {

constexpr int kTag = 0;

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

absl::Status Check(int result, const char* call) {
  if (result == MPI_SUCCESS) return absl::OkStatus();
  int error_class = MPI_ERR_UNKNOWN;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_class(result, &error_class);
  MPI_Error_string(result, text, &length);
  return absl::Status(CodeOf(error_class), absl::StrCat(call, ": ", text));
}

MPI_Datatype TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kI32:
      return MPI_INT32_T;
    case DType::kI64:
      return MPI_INT64_T;
    case DType::kF32:
      return MPI_FLOAT;
    case DType::kF64:
      return MPI_DOUBLE;
    default:
      return MPI_UINT8_T;  // the checks let only kU8 come here
  }
}

MPI_Op OpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
    default:
      return MPI_SUM;
  }
}

// MPI between Init and Finalize. Shared by all communicators; the last one drops it.
//
// MPI_Finalize waits for all ranks. After a failed operation, or while an exception unwinds this
// rank, the others may stand in a collective call that this one never joins, and both would wait
// for ever. So MPI is then left as it is: the launcher sees a rank that ends without finalising,
// and ends the job.
class Runtime {
 public:
  explicit Runtime(bool owned) : owned_(owned) {}
  ~Runtime() {
    if (owned_ && usable()) MPI_Finalize();  // nobody is left to hear of a failure
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  bool usable() const { return !broken_ && std::uncaught_exceptions() == 0; }
  void MarkBroken() { broken_ = true; }

 private:
  const bool owned_;     // this library called MPI_Init_thread
  bool broken_ = false;  // an operation failed, or the group was aborted
};

struct Place {
  int rank = 0;
  int size = 1;
};

absl::StatusOr<Place> PlaceIn(MPI_Comm comm) {
  Place place;
  MILLRACE_RETURN_IF_ERROR(Check(MPI_Comm_rank(comm, &place.rank), "MPI_Comm_rank"));
  MILLRACE_RETURN_IF_ERROR(Check(MPI_Comm_size(comm, &place.size), "MPI_Comm_size"));
  return place;
}

// Calls f(pointer offset in bytes, element count) for pieces of at most `limit` bytes, at least
// once when `even_if_empty`.
template <typename F>
absl::Status ForPieces(size_t bytes, size_t element, size_t limit, bool even_if_empty, F&& f) {
  const size_t step = std::max<size_t>(limit / element, 1) * element;
  size_t at = 0;
  if (bytes == 0 && even_if_empty) return f(at, 0);
  for (; at < bytes; at += step) {
    const size_t piece = std::min(step, bytes - at);
    MILLRACE_RETURN_IF_ERROR(f(at, static_cast<int>(piece / element)));
  }
  return absl::OkStatus();
}

std::byte* At(void* data, size_t offset) { return static_cast<std::byte*>(data) + offset; }
const std::byte* At(const void* data, size_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}

class MpiCommunicator final : public Communicator {
 public:
  // Takes over `comm`.
  MpiCommunicator(std::shared_ptr<Runtime> runtime, MPI_Comm comm, const MpiTuning& tuning)
      : runtime_(std::move(runtime)), comm_(comm), tuning_(tuning) {}
  ~MpiCommunicator() override {
    int finalized = 0;
    if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0 || !runtime_->usable()) return;
    MPI_Comm_free(&comm_);
  }

  // Asks MPI for the ranks. Collective; call once, before anything else.
  absl::Status Init();

  int rank() const override { return world_.rank; }
  int size() const override { return world_.size; }
  int local_rank() const override { return local_.rank; }
  int local_size() const override { return local_.size; }
  std::string_view backend() const override { return "mpi"; }

  absl::Status AllReduce(TensorView data, ReduceOp op) override;
  absl::Status ReduceScatter(TensorView data, ReduceOp op) override;
  absl::Status AllGather(ConstTensorView in, TensorView out) override;
  absl::Status Broadcast(TensorView data, int root) override;
  absl::Status Barrier() override { return CheckShared(MPI_Barrier(comm_), "MPI_Barrier"); }
  absl::Status Send(ConstTensorView data, int peer) override;
  absl::Status Recv(TensorView data, int peer) override;
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  // The exit code is all that MPI lets a library say; the caller reports `reason`.
  void Abort(const absl::Status&) override {
    runtime_->MarkBroken();
    MPI_Abort(comm_, 1);
  }

 private:
  // Check, for a call that peers take part in.
  absl::Status CheckShared(int result, const char* call) const {
    absl::Status status = Check(result, call);
    if (absl::IsUnavailable(status)) runtime_->MarkBroken();
    return status;
  }
  absl::Status ReduceToRootAndBroadcast(TensorView data, ReduceOp op);

  const std::shared_ptr<Runtime> runtime_;
  MPI_Comm comm_;
  const MpiTuning tuning_;
  Place world_;
  Place local_;
};

absl::Status MpiCommunicator::Init() {
  MILLRACE_RETURN_IF_ERROR(
      Check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  MILLRACE_ASSIGN_OR_RETURN(world_, PlaceIn(comm_));
  MPI_Comm host = MPI_COMM_NULL;
  MILLRACE_RETURN_IF_ERROR(
      Check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, world_.rank, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type"));
  const absl::StatusOr<Place> local = PlaceIn(host);
  MILLRACE_RETURN_IF_ERROR(Check(MPI_Comm_free(&host), "MPI_Comm_free"));
  MILLRACE_RETURN_IF_ERROR(local.status());
  local_ = *local;
  return absl::OkStatus();
}

absl::Status MpiCommunicator::AllReduce(TensorView data, ReduceOp op) {
  MILLRACE_RETURN_IF_ERROR(CheckView(data));
  const bool is_float = data.dtype == DType::kF32 || data.dtype == DType::kF64;
  if (is_float && op != ReduceOp::kSum) return ReduceToRootAndBroadcast(data, op);
  return ForPieces(data.size_bytes(), SizeOf(data.dtype), tuning_.reduce_chunk_bytes, false,
                   [&](size_t at, int count) {
                     return CheckShared(MPI_Allreduce(MPI_IN_PLACE, At(data.data, at), count,
                                                      TypeOf(data.dtype), OpOf(op), comm_),
                                        "MPI_Allreduce");
                   });
}

absl::Status MpiCommunicator::ReduceToRootAndBroadcast(TensorView data, ReduceOp op) {
  MILLRACE_RETURN_IF_ERROR(ForPieces(data.size_bytes(), SizeOf(data.dtype),
                                     tuning_.reduce_chunk_bytes, false, [&](size_t at, int count) {
                                       std::byte* const piece = At(data.data, at);
                                       return CheckShared(
                                           MPI_Reduce(world_.rank == 0 ? MPI_IN_PLACE : piece,
                                                      world_.rank == 0 ? piece : nullptr, count,
                                                      TypeOf(data.dtype), OpOf(op), 0, comm_),
                                           "MPI_Reduce");
                                     }));
  return Broadcast(data, 0);
}

// Packs a piece of every block into one small buffer, so that each call is small and its result
// lands in this rank's block.
absl::Status MpiCommunicator::ReduceScatter(TensorView data, ReduceOp op) {
  MILLRACE_RETURN_IF_ERROR(CheckBlocks(data, size()));
  const size_t block = data.size_bytes() / size();
  const size_t element = SizeOf(data.dtype);
  std::vector<std::byte> packed;
  return ForPieces(block, element, tuning_.reduce_chunk_bytes / size(), false,
                   [&](size_t at, int count) {
                     const size_t bytes = count * element;
                     packed.resize(bytes * size());
                     for (int r = 0; r < size(); ++r) {
                       std::memcpy(&packed[r * bytes], At(data.data, r * block + at), bytes);
                     }
                     return CheckShared(
                         MPI_Reduce_scatter_block(packed.data(), At(data.data, rank() * block + at),
                                                  count, TypeOf(data.dtype), OpOf(op), comm_),
                         "MPI_Reduce_scatter_block");
                   });
}

absl::Status MpiCommunicator::AllGather(ConstTensorView in, TensorView out) {
  MILLRACE_RETURN_IF_ERROR(CheckGather(in, out, size()));
  const size_t block = in.size_bytes();
  if (block == 0) return absl::OkStatus();
  std::byte* const own = At(out.data, block * rank());
  if (out.size_bytes() <= tuning_.max_call_bytes) {
    const int count = static_cast<int>(in.shape.num_elements());
    return CheckShared(MPI_Allgather(own == in.data ? MPI_IN_PLACE : in.data, count,
                                     TypeOf(in.dtype), out.data, count, TypeOf(in.dtype), comm_),
                       "MPI_Allgather");
  }
  if (own != in.data) std::memcpy(own, in.data, block);
  for (int root = 0; root < size(); ++root) {
    const TensorView piece{At(out.data, block * root), in.dtype, Shape{in.shape.num_elements()}};
    MILLRACE_RETURN_IF_ERROR(Broadcast(piece, root));
  }
  return absl::OkStatus();
}

absl::Status MpiCommunicator::Broadcast(TensorView data, int root) {
  MILLRACE_RETURN_IF_ERROR(CheckRooted(data, root, size()));
  return ForPieces(data.size_bytes(), SizeOf(data.dtype), tuning_.max_call_bytes, false,
                   [&](size_t at, int count) {
                     return CheckShared(
                         MPI_Bcast(At(data.data, at), count, TypeOf(data.dtype), root, comm_),
                         "MPI_Bcast");
                   });
}

absl::Status MpiCommunicator::Send(ConstTensorView data, int peer) {
  MILLRACE_RETURN_IF_ERROR(CheckPeer(data, peer, rank(), size()));
  return ForPieces(data.size_bytes(), SizeOf(data.dtype), tuning_.max_call_bytes, true,
                   [&](size_t at, int count) {
                     return CheckShared(
                         MPI_Send(At(data.data, at), count, TypeOf(data.dtype), peer, kTag, comm_),
                         "MPI_Send");
                   });
}

absl::Status MpiCommunicator::Recv(TensorView data, int peer) {
  MILLRACE_RETURN_IF_ERROR(CheckPeer(data, peer, rank(), size()));
  return ForPieces(
      data.size_bytes(), SizeOf(data.dtype), tuning_.max_call_bytes, true,
      [&](size_t at, int count) {
        MPI_Status status;
        const MPI_Datatype type = TypeOf(data.dtype);
        MILLRACE_RETURN_IF_ERROR(CheckShared(
            MPI_Recv(At(data.data, at), count, type, peer, kTag, comm_, &status), "MPI_Recv"));
        int received = 0;
        MILLRACE_RETURN_IF_ERROR(Check(MPI_Get_count(&status, type, &received), "MPI_Get_count"));
        if (received == count) return absl::OkStatus();
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", peer, " sends less than the ", data.shape.num_elements(), " x ",
                         ToAbsl(millrace::Name(data.dtype)), " that rank ", rank(), " receives"));
      });
}

absl::StatusOr<std::unique_ptr<Communicator>> MpiCommunicator::Split(int color, int key) {
  MILLRACE_RETURN_IF_ERROR(CheckColor(color));
  MPI_Comm comm = MPI_COMM_NULL;
  MILLRACE_RETURN_IF_ERROR(CheckShared(MPI_Comm_split(comm_, color, key, &comm), "MPI_Comm_split"));
  auto child = std::make_unique<MpiCommunicator>(runtime_, comm, tuning_);
  MILLRACE_RETURN_IF_ERROR(child->Init());
  return child;
}

// Open MPI waits by spinning. With more ranks than cores that takes the core from the rank it waits
// for (four ranks on two cores: 2,580 ms a step against 46 with yielding). A setting of the user
// stays. Runs before MPI_Init, when no thread of this library exists.
void YieldWhenCrowded(int local_size) {
  if (local_size > ReadCores().usable) setenv("OMPI_MCA_mpi_yield_when_idle", "1", /*replace=*/0);
}

absl::StatusOr<std::shared_ptr<Runtime>> Start(int local_size) {
  int finalized = 0;
  MILLRACE_RETURN_IF_ERROR(Check(MPI_Finalized(&finalized), "MPI_Finalized"));
  if (finalized != 0) {
    return absl::FailedPreconditionError("MPI was finalised and cannot be started again");
  }
  int initialized = 0;
  MILLRACE_RETURN_IF_ERROR(Check(MPI_Initialized(&initialized), "MPI_Initialized"));
  int provided = MPI_THREAD_SINGLE;
  if (initialized != 0) {
    MILLRACE_RETURN_IF_ERROR(Check(MPI_Query_thread(&provided), "MPI_Query_thread"));
  } else {
    YieldWhenCrowded(local_size);
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
      return absl::UnavailableError("MPI_Init_thread failed");
    }
  }
  auto runtime = std::make_shared<Runtime>(initialized == 0);
  if (provided < MPI_THREAD_FUNNELED) {
    return absl::FailedPreconditionError("MPI does not grant MPI_THREAD_FUNNELED");
  }
  if (initialized == 0) {
    for (const MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF}) {
      MILLRACE_RETURN_IF_ERROR(
          Check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    }
  }
  return runtime;
}

}  // namespace

bool HasMpi() { return true; }

bool ReportsMissingPmi() {
#ifdef OMPI_MAJOR_VERSION
  return false;
#else
  return true;
#endif
}

absl::StatusOr<std::unique_ptr<Communicator>> ConnectMpi(int local_size, const MpiTuning& tuning) {
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<Runtime> runtime, Start(local_size));
  MPI_Comm comm = MPI_COMM_NULL;
  MILLRACE_RETURN_IF_ERROR(Check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup"));
  auto communicator = std::make_unique<MpiCommunicator>(std::move(runtime), comm, tuning);
  MILLRACE_RETURN_IF_ERROR(communicator->Init());
  return communicator;
}

}  // namespace millrace::collectives
