// Ranks on CUDA devices, over NCCL.
//
// NCCL has neither deadlines nor a check that the ranks make the same call: a rank that does not
// come, or comes with another size, hangs the others' devices without an error. So each call that
// is not known to be agreed is first compared over another network, every wait here asks NCCL for
// errors and watches the time, and a failure aborts the communicator (session.cc).

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/half.h"
#include "base/mutex.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/core/checks.h"
#include "collectives/core/pending.h"
#include "collectives/core/reduce.h"
#include "collectives/nccl/on_device.h"

namespace millrace::collectives::nccl {
namespace {

// REQUIRES: a type that the checks accept.
DataType TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kI32:
      return DataType::kInt32;
    case DType::kI64:
      return DataType::kInt64;
    case DType::kF16:
      return DataType::kFloat16;
    case DType::kBF16:
      return DataType::kBfloat16;
    case DType::kF32:
      return DataType::kFloat32;
    case DType::kF64:
      return DataType::kFloat64;
    default:
      return DataType::kUint8;
  }
}

RedOp OpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProduct:
      return RedOp::kProd;
    case ReduceOp::kMin:
      return RedOp::kMin;
    case ReduceOp::kMax:
      return RedOp::kMax;
    case ReduceOp::kAverage:
      return RedOp::kAvg;
    default:
      return RedOp::kSum;
  }
}

// A factor in the element type of the data, as NCCL takes it.
union Scalar {
  double f64;
  float f32;
  Half f16;
  BFloat bf16;
};

Scalar MakeScalar(DType dtype, double value) {
  Scalar scalar{value};
  if (dtype == DType::kF32) scalar.f32 = static_cast<float>(value);
  if (dtype == DType::kF16) scalar.f16 = ToHalf(static_cast<float>(value));
  if (dtype == DType::kBF16) scalar.bf16 = ToBFloat(static_cast<float>(value));
  return scalar;
}

absl::Status CheckScaled(const Request& request) {
  const bool reduces = request.kind == Collective::kAllReduce ||
                       request.kind == Collective::kReduceScatter ||
                       request.kind == Collective::kReduce;
  if (!reduces || request.op != ReduceOp::kSum) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(Name(request.kind)), " (", ToAbsl(Name(request.op)), ") is not a sum"));
  }
  const DType dtype = request.in.dtype;
  if (dtype == DType::kU8 || dtype == DType::kI32 || dtype == DType::kI64) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(millrace::Name(dtype)), " is not scaled: floating-point numbers are"));
  }
  return absl::OkStatus();
}

// One call of NCCL, or several in a group.
Result Enqueue(const Api& api, const Request& request, RedOp op, int size, Comm comm,
               Stream stream) {
  const void* const in = request.in.data;
  void* const out = request.out.data;
  const bool receives = request.kind == Collective::kRecv;
  const DType dtype = receives ? request.out.dtype : request.in.dtype;
  const DataType type = TypeOf(dtype);
  const auto in_count = static_cast<size_t>(request.in.shape.num_elements());
  const auto out_count = static_cast<size_t>(request.out.shape.num_elements());
  switch (request.kind) {
    case Collective::kAllReduce:
      return api.all_reduce(in, out, in_count, type, op, comm, stream);
    case Collective::kReduceScatter:
      return api.reduce_scatter(in, out, out_count, type, op, comm, stream);
    case Collective::kAllGather:
      return api.all_gather(in, out, in_count, type, comm, stream);
    case Collective::kBroadcast:
      return api.broadcast(in, out, in_count, type, request.peer, comm, stream);
    case Collective::kReduce:
      return api.reduce(in, out, in_count, type, op, request.peer, comm, stream);
    case Collective::kSend:
      return api.send(in, in_count, type, request.peer, comm, stream);
    case Collective::kRecv:
      return api.recv(out, out_count, type, request.peer, comm, stream);
    case Collective::kAllToAll:
    case Collective::kBarrier:
      break;
  }
  const size_t block = in_count / size;
  const size_t block_bytes = block * SizeOf(dtype);
  Result result = api.group_start();
  if (result != Result::kSuccess) return result;
  for (int r = 0; r < size && result == Result::kSuccess; ++r) {
    result =
        api.send(static_cast<const std::byte*>(in) + r * block_bytes, block, type, r, comm, stream);
    if (result != Result::kSuccess) break;
    result = api.recv(static_cast<std::byte*>(out) + r * block_bytes, block, type, r, comm, stream);
  }
  const Result ended = api.group_end();  // also after an error, or the thread's group stays open
  return result == Result::kSuccess ? ended : result;
}

class PendingCall final : public Pending {
 public:
  PendingCall(std::shared_ptr<Session> session, std::string_view call, void* event,
              const Deadline& deadline)
      : session_(std::move(session)), call_(call), event_(event), deadline_(deadline) {}
  ~PendingCall() override { (void)Wait(); }

  bool Poll() override {
    if (event_ == nullptr) return true;
    if (IsWatchTurn()) (void)session_->AskWatch(deadline_);  // Poll returns its error
    const absl::StatusOr<bool> passed = session_->Poll(call_, event_, deadline_);
    if (passed.ok() && !*passed) return false;
    // After a failure Wait also waits until the device no longer uses the memory.
    (void)Wait();
    return true;
  }
  absl::Status Wait() override {
    if (event_ == nullptr) return outcome_;
    outcome_ = session_->Wait(call_, event_, deadline_);
    session_->Release(event_);
    event_ = nullptr;
    return outcome_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool IsWatchTurn() {
    const Clock::time_point now = Clock::now();
    if (now - watched_ < kLongestSleep) return false;
    watched_ = now;
    return true;
  }

  const std::shared_ptr<Session> session_;
  const std::string_view call_;
  void* event_;  // null: the call has ended
  const Deadline deadline_;
  Clock::time_point watched_ = Clock::now();
  absl::Status outcome_;
};

class CommunicatorOverNccl final : public NcclCommunicator {
 public:
  CommunicatorOverNccl(std::shared_ptr<Session> session, std::unique_ptr<Communicator> side,
                       const NcclOptions& options)
      : session_(std::move(session)), side_(std::move(side)), options_(options) {}

  int rank() const override { return side_->rank(); }
  int size() const override { return side_->size(); }
  int local_rank() const override { return side_->local_rank(); }
  int local_size() const override { return side_->local_size(); }
  std::string_view backend() const override { return "nccl"; }
  int version() const override { return session_->api().version; }
  Capabilities capabilities() const override {
    Capabilities capabilities = side_->capabilities();  // Barrier, Split and comparing go there
    capabilities.ordered_sums = false;
    return capabilities;
  }
  DeviceQueue& queue() override { return session_->queue(); }
  void* gradient_stream() const override { return options_.gradient_stream; }
  Communicator& bootstrap() override { return *side_; }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  void Abort(const absl::Status& reason) override {
    // Also ends the waits of the communicator's thread in the bootstrap's network (SideLimits).
    (void)session_->Abort(
        absl::CancelledError(absl::StrCat("aborted by rank ", rank(), ": ", reason.ToString())));
    const MutexLock lock(side_mu_);
    side_->Abort(reason);
  }

  void Leave(const absl::Status& reason) override {
    (void)session_->Abort(reason);
    const MutexLock lock(side_mu_);
    side_->Leave(reason);
  }
  absl::Status Heard() override {
    const MutexLock lock(side_mu_);
    return side_->Heard();
  }

  std::unique_ptr<Pending> StartScaled(const Request& request, double scale) override;
  absl::StatusOr<void*> Allocate(size_t bytes) override { return session_->Allocate(bytes); }
  absl::Status Register(void* memory, size_t bytes) override {
    return session_->Register(memory, bytes);
  }
  absl::Status Copy(void* to, const void* from, size_t bytes) override {
    return session_->Copy(to, from, bytes);
  }

 private:
  absl::Status RunChecked(const Request& request, const absl::Status& arguments) override {
    return StartChecked(request, arguments)->Wait();
  }
  std::unique_ptr<Pending> StartChecked(const Request& request,
                                        const absl::Status& arguments) override {
    return Begin(request, arguments, [](Comm, RedOp*) { return Result::kSuccess; });
  }
  // `prepare` may replace the request's operator.
  using Prepare = std::function<Result(Comm, RedOp*)>;
  std::unique_ptr<Pending> Begin(const Request& request, const absl::Status& arguments,
                                 const Prepare& prepare);
  absl::StatusOr<void*> Issue(const Request& request, const Prepare& prepare,
                              const Deadline& deadline);
  absl::Status Agree(const Request& request, const absl::Status& arguments);
  absl::Status Barrier(const Deadline& deadline);

  WaitLimits SideLimits(std::chrono::nanoseconds timeout) const;
  // Runs `talk` with the other ranks over the bootstrap's network; after a failure tells them the
  // failure instead. An error of `talk` is a failure, unless it is INVALID_ARGUMENT or agreed by
  // all.
  absl::Status OverSide(std::chrono::nanoseconds timeout,
                        const std::function<absl::Status()>& talk);

  const std::shared_ptr<Session> session_;
  // The same ranks over the bootstrap's network; used by one thread at a time, Abort's or its own.
  const std::unique_ptr<Communicator> side_;
  Mutex side_mu_;
  const NcclOptions options_;
};

// A failure, such as an Abort of another thread, ends the waits there.
WaitLimits CommunicatorOverNccl::SideLimits(std::chrono::nanoseconds timeout) const {
  return {timeout, [session = session_.get(), watch = limits().watch] {
            MILLRACE_RETURN_IF_ERROR(session->failure());
            return watch ? watch() : absl::OkStatus();
          }};
}

absl::Status CommunicatorOverNccl::OverSide(std::chrono::nanoseconds timeout,
                                            const std::function<absl::Status()>& talk) {
  const MutexLock lock(side_mu_);
  absl::Status failure = session_->failure();
  if (failure.ok()) {
    side_->set_limits(SideLimits(timeout));
    // A peer that has left has told its reason here; NCCL only reports that it is gone.
    const absl::Status heard = side_->Heard();
    const absl::Status said = heard.ok() ? talk() : heard;
    if (said.ok() || absl::IsInvalidArgument(said) || IsAgreed(said)) return said;
    failure = session_->Abort(said);
  }
  side_->Leave(failure);
  return failure;
}

absl::Status CommunicatorOverNccl::Agree(const Request& request, const absl::Status& arguments) {
  const bool pair = request.kind == Collective::kSend || request.kind == Collective::kRecv;
  // The peers begin an operation that this rank does not.
  if (request.agreed && !arguments.ok()) Leave(absl::UnavailableError(arguments.message()));
  if (request.agreed || !options_.compare_calls || (pair && !arguments.ok())) return arguments;
  return OverSide(limits().timeout, [&] {
    return pair ? AgreeOnMessage(*side_, request) : AgreeOnCall(*side_, request, arguments);
  });
}

// Does not use NCCL, whose calls all need device memory. Waits first for the calls begun before.
absl::Status CommunicatorOverNccl::Barrier(const Deadline& deadline) {
  return OverSide(limits().timeout, [&]() -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(void* const event, session_->Record());
    const absl::Status ended = session_->Wait(Name(Collective::kBarrier), event, deadline);
    session_->Release(event);
    MILLRACE_RETURN_IF_ERROR(ended);
    return AgreeOnCall(*side_, Request(), absl::OkStatus());
  });
}

absl::StatusOr<void*> CommunicatorOverNccl::Issue(const Request& request, const Prepare& prepare,
                                                  const Deadline& deadline) {
  const Api& api = session_->api();
  RedOp made = RedOp::kSum;
  const auto issue = [&](Comm comm, Stream stream) {
    RedOp op = OpOf(request.op);
    const Result prepared = prepare(comm, &op);
    if (prepared != Result::kSuccess) return prepared;
    if (op >= RedOp::kFirstMade) made = op;
    return Enqueue(api, request, op, size(), comm, stream);
  };
  MILLRACE_RETURN_IF_ERROR(session_->Issue(Name(request.kind), issue, deadline));
  if (made >= RedOp::kFirstMade) {  // "as soon as the last NCCL function which is given it returns"
    MILLRACE_RETURN_IF_ERROR(session_->Issue(
        "ncclRedOpDestroy", [&](Comm comm, Stream) { return api.red_op_destroy(made, comm); },
        deadline));
  }
  return session_->Record();
}

std::unique_ptr<Pending> CommunicatorOverNccl::Begin(const Request& request,
                                                     const absl::Status& arguments,
                                                     const Prepare& prepare) {
  const Deadline deadline(limits());
  if (request.kind == Collective::kBarrier) return MakeEnded(Barrier(deadline));
  if (absl::Status agreed = Agree(request, arguments); !agreed.ok()) {
    return MakeEnded(std::move(agreed));
  }
  const bool receives = request.kind == Collective::kRecv;
  // All ranks know that the call is empty, so NCCL is not called.
  const ConstTensorView data = receives ? ConstTensorView(request.out) : request.in;
  if (data.shape.num_elements() == 0) return MakeEnded(absl::OkStatus());
  const absl::StatusOr<void*> event = Issue(request, prepare, deadline);
  if (!event.ok()) return MakeEnded(event.status());
  return std::make_unique<PendingCall>(session_, Name(request.kind), *event, deadline);
}

std::unique_ptr<Pending> CommunicatorOverNccl::StartScaled(const Request& request, double scale) {
  absl::Status arguments = CheckScaled(request);
  if (arguments.ok()) arguments = CheckRequest(request, rank(), size());
  Scalar scalar = MakeScalar(request.in.dtype, scale);
  return Begin(request, arguments, [&](Comm comm, RedOp* op) {
    return session_->api().red_op_create_pre_mul_sum(op, &scalar, TypeOf(request.in.dtype),
                                                     ScalarResidence::kHostImmediate, comm);
  });
}

absl::StatusOr<std::unique_ptr<Communicator>> CommunicatorOverNccl::Split(int color, int key) {
  const std::chrono::nanoseconds timeout = options_.connect_timeout;
  std::unique_ptr<Communicator> side;
  absl::StatusOr<std::unique_ptr<DeviceQueue>> queue = session_->queue().Another();
  // NCCL waits for all ranks.
  MILLRACE_RETURN_IF_ERROR(OverSide(timeout, [&]() -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(side, side_->Split(color, key));
    return AgreeOnOutcome(*side_, queue.status());
  }));
  absl::StatusOr<std::shared_ptr<Session>> session = session_->Split(
      color, key, MakeConfig(options_), *std::move(queue), Deadline({timeout, limits().watch}));
  // The first rank to come waits as long as the last one has to.
  MILLRACE_RETURN_IF_ERROR(
      OverSide(2 * timeout, [&] { return AgreeOnOutcome(*side_, session.status()); }));
  side->set_limits({timeout, limits().watch});  // not of this communicator's failure
  std::unique_ptr<Communicator> child =
      MakeCommunicator(*std::move(session), std::move(side), options_);
  child->set_limits(limits());
  return child;
}

}  // namespace

std::unique_ptr<NcclCommunicator> MakeCommunicator(std::shared_ptr<Session> session,
                                                   std::unique_ptr<Communicator> side,
                                                   const NcclOptions& options) {
  return std::make_unique<CommunicatorOverNccl>(std::move(session), std::move(side), options);
}

}  // namespace millrace::collectives::nccl
