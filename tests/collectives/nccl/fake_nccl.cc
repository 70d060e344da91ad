// A libnccl whose ranks are threads of one process, whose device memory is the host's, and whose
// streams are HostStreams: every path of the NCCL communicator runs without a GPU. It keeps NCCL's
// habits that matter: communicators are not blocking, operations end on the stream, a rank that
// does not come, or comes with another call, hangs the others until they abort.
//
// Its version is fake_nccl_version.cc's; variants are linked without some of its functions.

#include "tests/collectives/nccl/fake_nccl.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "base/half.h"
#include "base/mutex.h"
#include "collectives/core/reduce.h"
#include "collectives/nccl/types.h"
#include "tests/collectives/cuda/host_stream.h"

namespace millrace::collectives::nccl {
namespace {

FakeNcclControl control;

// One collective call of one rank.
struct Op {
  Collective kind = Collective::kAllReduce;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;  // of a block where there are blocks
  DataType type = DataType::kUint8;
  RedOp op = RedOp::kSum;
  int root = 0;
  double scale = 1;  // of this rank's input
};

struct Message {
  const void* from = nullptr;
  void* to = nullptr;
  size_t bytes = 0;
  bool done = false;
};

// The calls of all ranks at one place of their order.
struct Meeting {
  std::map<int, Op> ops;
  bool done = false;
};

struct SplitMeeting {
  std::map<int, std::pair<int, int>> wishes;  // colour and key by rank
  std::map<int, std::shared_ptr<struct State>> children;
};

struct Group {
  explicit Group(int size_in) : size(size_in) {}
  const int size;
  int joined = 0;
  int called = 0;  // members that have made a call
  bool aborted = false;
  std::map<int, struct State*> members;
  std::map<uint64_t, Meeting> meetings;
  std::map<uint64_t, SplitMeeting> splits;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> sent, awaited;
};

// A communicator of one rank.
struct State {
  std::shared_ptr<Group> group;
  int rank = 0;
  Result error = Result::kSuccess;
  int polls = 0;  // answers of "in progress" still to come
  bool has_called = false;
  bool aborted = false;
  bool finalized = false;
  uint64_t calls = 0;
  uint64_t splits = 0;
  // Begun by the rank's thread, also in communicators that are split from this one.
  std::shared_ptr<int> operations = std::make_shared<int>(0);
  Comm* split_out = nullptr;  // where the child of the split under way goes
  std::vector<double> scales;
  int registrations = 0;
};

struct World {
  Mutex mu;  // guards all of the above
  CondVar changed;
  std::map<int64_t, std::shared_ptr<Group>> groups MILLRACE_GUARDED_BY(mu);
  int64_t next_id MILLRACE_GUARDED_BY(mu) = 1;
};

World& TheWorld() {
  static World* const world = new World;
  return *world;
}

Comm ToComm(std::shared_ptr<State> state) {
  ++control.live;
  return reinterpret_cast<Comm>(new std::shared_ptr<State>(std::move(state)));
}
const std::shared_ptr<State>& FromComm(Comm comm) {
  return *reinterpret_cast<std::shared_ptr<State>*>(comm);
}
void Forget(Comm comm) {
  --control.live;
  delete reinterpret_cast<std::shared_ptr<State>*>(comm);
}

void NoteBounds(const Config& config) {
  control.min_ctas = config.min_ctas;
  control.max_ctas = config.max_ctas;
}

DType DTypeOf(DataType type) {
  switch (type) {
    case DataType::kUint8:
      return DType::kU8;
    case DataType::kInt32:
      return DType::kI32;
    case DataType::kInt64:
      return DType::kI64;
    case DataType::kFloat16:
      return DType::kF16;
    case DataType::kBfloat16:
      return DType::kBF16;
    case DataType::kFloat32:
      return DType::kF32;
    case DataType::kFloat64:
      return DType::kF64;
  }
  std::abort();
}

ReduceOp ReduceOpOf(RedOp op) {
  switch (op) {
    case RedOp::kProd:
      return ReduceOp::kProduct;
    case RedOp::kMax:
      return ReduceOp::kMax;
    case RedOp::kMin:
      return ReduceOp::kMin;
    case RedOp::kAvg:
      return ReduceOp::kAverage;
    default:
      return ReduceOp::kSum;
  }
}

void Scale(DType dtype, std::vector<std::byte>& data, double scale) {
  const size_t count = data.size() / SizeOf(dtype);
  for (size_t i = 0; i < count; ++i) {
    if (dtype == DType::kF64) reinterpret_cast<double*>(data.data())[i] *= scale;
    if (dtype == DType::kF32) reinterpret_cast<float*>(data.data())[i] *= static_cast<float>(scale);
    if (dtype == DType::kF16) {
      Half& value = reinterpret_cast<Half*>(data.data())[i];
      value = ToHalf(ToFloat(value) * static_cast<float>(scale));
    }
    if (dtype == DType::kBF16) {
      BFloat& value = reinterpret_cast<BFloat*>(data.data())[i];
      value = ToBFloat(ToFloat(value) * static_cast<float>(scale));
    }
  }
}

// The reduction of `count` elements of all inputs, in another order than that of ranks and rounded
// at every hop, as NCCL may do it.
std::vector<std::byte> Reduced(const std::map<int, Op>& ops, size_t count) {
  const Op& first = ops.begin()->second;
  const DType dtype = DTypeOf(first.type);
  const ReduceOp op = ReduceOpOf(first.op);
  std::vector<std::byte> accumulator(count * SizeOf(AccumulatorType(dtype)));
  std::vector<std::byte> result(count * SizeOf(dtype));
  for (auto own = ops.rbegin(); own != ops.rend(); ++own) {
    const auto* const begin = static_cast<const std::byte*>(own->second.in);
    std::vector<std::byte> input(begin, begin + result.size());
    if (own->second.scale != 1) Scale(dtype, input, own->second.scale);
    if (own == ops.rbegin()) {
      result = std::move(input);
      continue;
    }
    BeginReduction(dtype, accumulator.data(), result.data(), count);
    Accumulate(dtype, op, accumulator.data(), input.data(), count);
    EndReduction(dtype, ReduceOp::kSum, 1, accumulator.data(), result.data(), count);
  }
  BeginReduction(dtype, accumulator.data(), result.data(), count);
  EndReduction(dtype, op, static_cast<int>(ops.size()), accumulator.data(), result.data(), count);
  return result;
}

// A last element that no sum of small numbers is.
void Spoil(void* floats, size_t bytes) {
  std::memset(static_cast<std::byte*>(floats) + bytes - sizeof(float), 0x55, sizeof(float));
}

void Compute(const std::map<int, Op>& ops) {
  const Op& first = ops.begin()->second;
  const size_t bytes = first.count * SizeOf(DTypeOf(first.type));
  std::vector<std::byte> result;
  switch (first.kind) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      result = Reduced(ops, first.count);
      break;
    case Collective::kReduceScatter:
      result = Reduced(ops, first.count * ops.size());
      break;
    case Collective::kAllGather:
      for (const auto& [rank, op] : ops) {
        const auto* const begin = static_cast<const std::byte*>(op.in);
        result.insert(result.end(), begin, begin + bytes);
      }
      break;
    default: {
      const auto* const begin = static_cast<const std::byte*>(ops.at(first.root).in);
      result.assign(begin, begin + bytes);
    }
  }
  for (const auto& [rank, op] : ops) {
    if (op.kind == Collective::kReduce && rank != op.root) continue;
    const bool scatters = op.kind == Collective::kReduceScatter;
    const size_t size = op.kind == Collective::kAllGather ? result.size() : bytes;
    std::memcpy(op.out, result.data() + (scatters ? rank * bytes : 0), size);
    if (rank == control.spoils_on && op.type == DataType::kFloat32) Spoil(op.out, size);
  }
}

bool Match(const std::map<int, Op>& ops) {
  const auto key = [](const Op& op) {
    return std::tuple(op.kind, op.count, op.type, std::min(op.op, RedOp::kFirstMade), op.root);
  };
  return std::ranges::all_of(
      ops, [&](const auto& entry) { return key(entry.second) == key(ops.begin()->second); });
}

void Fail(State& state, Result error) {
  if (state.error == Result::kSuccess) state.error = error;
}

Result Ask(const std::function<Result(int rank, int operation)>& hook, int rank, int operation) {
  return hook ? hook(rank, operation) : Result::kSuccess;
}

// On the rank's stream, before an operation. False, and the rank's error is set, where the test
// wants it to fail.
bool Comes(State& state, int operation) {
  control.WaitWhileHeld();
  const Result result = Ask(control.on_begin, state.rank, operation);
  const MutexLock lock(TheWorld().mu);
  if (result != Result::kSuccess) Fail(state, result);
  int rank = state.rank;
  const bool fails = control.fails_on.compare_exchange_strong(rank, -1);
  if (fails) Fail(state, control.failure);
  return !fails && result == Result::kSuccess;
}

// On the rank's stream.
void RunCollective(const std::shared_ptr<State>& state, int operation, uint64_t place,
                   const Op& op) {
  if (!Comes(*state, operation)) return;
  World& world = TheWorld();
  MutexLock lock(world.mu);
  Meeting& meeting = state->group->meetings[place];
  meeting.ops[state->rank] = op;
  const bool complete = static_cast<int>(meeting.ops.size()) == state->group->size;
  if (complete && !state->group->aborted && Match(meeting.ops)) {
    Compute(meeting.ops);
    meeting.done = true;
    world.changed.NotifyAll();
  }
  while (!meeting.done && !state->aborted) world.changed.Wait(world.mu);
}

void Post(Group& group, std::pair<int, int> pair, const std::shared_ptr<Message>& message) {
  const bool sends = message->from != nullptr;
  auto& others = (sends ? group.awaited : group.sent)[pair];
  if (others.empty()) {
    (sends ? group.sent : group.awaited)[pair].push_back(message);
    return;
  }
  const std::shared_ptr<Message> other = others.front();
  others.pop_front();
  if (other->bytes != message->bytes || group.aborted) return;  // neither ends
  std::memcpy(sends ? other->to : message->to, sends ? message->from : other->from, other->bytes);
  other->done = message->done = true;
}

using Batch = std::vector<std::pair<std::pair<int, int>, std::shared_ptr<Message>>>;

void RunMessages(const std::shared_ptr<State>& state, int operation, const Batch& batch) {
  if (!Comes(*state, operation)) return;
  World& world = TheWorld();
  MutexLock lock(world.mu);
  for (const auto& [pair, message] : batch) Post(*state->group, pair, message);
  world.changed.NotifyAll();
  const auto ended = [&] {
    return std::ranges::all_of(batch, [](const auto& entry) { return entry.second->done; });
  };
  while (!ended() && !state->aborted) world.changed.Wait(world.mu);
}

bool IsReady(const State& state) {
  const bool connected = state.group->joined == state.group->size && !control.init_hangs;
  const bool called =
      !control.connects_by_calls || !state.has_called || state.group->called == state.group->size;
  return connected && called && state.polls == 0 && state.split_out == nullptr;
}

// Whether a call into `state` may be made now; the call is then in progress for some polls.
Result Begin(State& state) {
  if (state.error != Result::kSuccess) return state.error;
  if (!IsReady(state) || state.finalized) {
    ++control.misuses;
    return Result::kInvalidUsage;
  }
  if (!state.has_called) ++state.group->called;
  state.has_called = true;
  state.polls = control.polls;
  return state.polls > 0 ? Result::kInProgress : Result::kSuccess;
}

Result EnqueueCollective(Comm comm, Stream stream, Op op) {
  const std::shared_ptr<State> state = FromComm(comm);
  const int operation = (*state->operations)++;
  Result result = Ask(control.on_call, state->rank, operation);
  if (result != Result::kSuccess) return result;
  uint64_t place = 0;
  {
    MutexLock lock(TheWorld().mu);
    result = Begin(*state);
    place = state->calls++;
    if (op.op >= RedOp::kFirstMade) {
      op.scale = state->scales.at(static_cast<int>(op.op) - static_cast<int>(RedOp::kFirstMade));
    }
  }
  if (result != Result::kSuccess && result != Result::kInProgress) return result;
  static_cast<HostStream*>(stream)->Enqueue([=] { RunCollective(state, operation, place, op); });
  return result;
}

// The open group of this thread: messages of one communicator.
struct OpenGroup {
  int depth = 0;
  Comm comm = nullptr;
  Stream stream = nullptr;
  Batch batch;
};
thread_local OpenGroup open_group;

Result EnqueueOpenGroup() {
  const OpenGroup group = std::exchange(open_group, OpenGroup());
  if (group.batch.empty()) return Result::kSuccess;
  const std::shared_ptr<State> state = FromComm(group.comm);
  const int operation = (*state->operations)++;
  Result result = Ask(control.on_call, state->rank, operation);
  if (result != Result::kSuccess) return result;
  {
    MutexLock lock(TheWorld().mu);
    result = Begin(*state);
  }
  if (result != Result::kSuccess && result != Result::kInProgress) return result;
  static_cast<HostStream*>(group.stream)->Enqueue([state, operation, batch = group.batch] {
    RunMessages(state, operation, batch);
  });
  return result;
}

Result AddMessage(Comm comm, Stream stream, std::pair<int, int> pair, const Message& message) {
  open_group.comm = comm;
  open_group.stream = stream;
  open_group.batch.emplace_back(pair, std::make_shared<Message>(message));
  return open_group.depth > 0 ? Result::kSuccess : EnqueueOpenGroup();
}

[[maybe_unused]] void MakeChildren(const Group& parent, SplitMeeting& split) {
  std::map<int, std::vector<std::pair<int, int>>> by_color;  // (key, rank)
  for (const auto& [rank, wish] : split.wishes)
    by_color[wish.first].emplace_back(wish.second, rank);
  for (auto& [color, members] : by_color) {
    std::ranges::sort(members);
    const auto group = std::make_shared<Group>(static_cast<int>(members.size()));
    group->joined = group->size;
    for (int i = 0; i < group->size; ++i) {
      auto child = std::make_shared<State>();
      child->group = group;
      child->rank = i;
      child->operations = parent.members.at(members[i].second)->operations;
      group->members[i] = child.get();
      split.children[members[i].second] = std::move(child);
    }
  }
}

void FinishSplit(State& state) {
  if (state.split_out == nullptr || state.polls > 0) return;
  const auto& children = state.group->splits[state.splits - 1].children;
  const auto child = children.find(state.rank);
  if (child == children.end()) return;
  *state.split_out = ToComm(child->second);
  state.split_out = nullptr;
}

}  // namespace

#define MILLRACE_FAKE_EXPORT extern "C" __attribute__((visibility("default")))

MILLRACE_FAKE_EXPORT FakeNcclControl* millrace_fake_nccl_control() { return &control; }

MILLRACE_FAKE_EXPORT const char* ncclGetErrorString(Result result) {
  switch (result) {
    case Result::kSystemError:
      return "unhandled system error";
    case Result::kRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "an error";
  }
}

MILLRACE_FAKE_EXPORT const char* ncclGetLastError(Comm) { return "fake detail"; }

MILLRACE_FAKE_EXPORT Result ncclGetUniqueId(UniqueId* id) {
  MutexLock lock(TheWorld().mu);
  const int64_t number = TheWorld().next_id++;
  *id = {};
  std::memcpy(id->bytes, &number, sizeof(number));
  return Result::kSuccess;
}

MILLRACE_FAKE_EXPORT Result ncclCommInitRankConfig(Comm* comm, int num_ranks, UniqueId id, int rank,
                                                   Config* config) {
  if (config->magic != 0xcafebeef || config->size < sizeof(Config) || config->blocking != 0) {
    return Result::kInvalidArgument;
  }
  NoteBounds(*config);
  int64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof(number));
  MutexLock lock(TheWorld().mu);
  std::shared_ptr<Group>& group = TheWorld().groups[number];
  if (group == nullptr) group = std::make_shared<Group>(num_ranks);
  auto state = std::make_shared<State>();
  state->group = group;
  state->rank = rank;
  state->polls = control.polls;
  group->members[rank] = state.get();
  if (control.init_fails_on == rank) {
    state->error = Result::kSystemError;
  } else if (++group->joined == num_ranks) {
    TheWorld().groups.erase(number);
  }
  *comm = ToComm(std::move(state));
  return Result::kInProgress;
}

MILLRACE_FAKE_EXPORT Result ncclCommSplit(Comm comm, int color, int key, Comm* child,
                                          Config* config) {
  if (config->blocking != 0) return Result::kInvalidArgument;
  NoteBounds(*config);
  MutexLock lock(TheWorld().mu);
  State& state = *FromComm(comm);
  const Result result = Begin(state);
  if (result != Result::kSuccess && result != Result::kInProgress) return result;
  SplitMeeting& split = state.group->splits[state.splits++];
  split.wishes[state.rank] = {color, key};
  state.split_out = child;
  if (static_cast<int>(split.wishes.size()) == state.group->size) MakeChildren(*state.group, split);
  return Result::kInProgress;
}

MILLRACE_FAKE_EXPORT Result ncclCommGetAsyncError(Comm comm, Result* async_error) {
  MutexLock lock(TheWorld().mu);
  State& state = *FromComm(comm);
  if (state.polls > 0) --state.polls;
  FinishSplit(state);
  *async_error = IsReady(state) ? Result::kSuccess : Result::kInProgress;
  if (state.error != Result::kSuccess) *async_error = state.error;
  return Result::kSuccess;
}

MILLRACE_FAKE_EXPORT Result ncclCommFinalize(Comm comm) {
  MutexLock lock(TheWorld().mu);
  State& state = *FromComm(comm);
  const Result result = Begin(state);
  state.finalized = true;
  return result;
}

MILLRACE_FAKE_EXPORT Result ncclCommDestroy(Comm comm) {
  MutexLock lock(TheWorld().mu);
  State& state = *FromComm(comm);
  if (!state.finalized || !IsReady(state) || state.registrations != 0) ++control.misuses;
  state.group->members.erase(state.rank);
  ++control.destroyed;
  Forget(comm);
  return Result::kSuccess;
}

MILLRACE_FAKE_EXPORT Result ncclCommAbort(Comm comm) {
  World& world = TheWorld();
  MutexLock lock(world.mu);
  State& state = *FromComm(comm);
  state.aborted = true;
  state.group->aborted = true;
  control.registrations -= state.registrations;
  state.group->members.erase(state.rank);
  if (control.peers_notice) {
    for (const auto& [rank, peer] : state.group->members) Fail(*peer, Result::kRemoteError);
  }
  ++control.aborted;
  world.changed.NotifyAll();
  Forget(comm);
  return Result::kSuccess;
}

MILLRACE_FAKE_EXPORT Result ncclGroupStart() {
  ++open_group.depth;
  return Result::kSuccess;
}

MILLRACE_FAKE_EXPORT Result ncclGroupEnd() {
  return --open_group.depth > 0 ? Result::kSuccess : EnqueueOpenGroup();
}

MILLRACE_FAKE_EXPORT Result ncclAllReduce(const void* in, void* out, size_t count, DataType type,
                                          RedOp op, Comm comm, Stream stream) {
  return EnqueueCollective(comm, stream, {Collective::kAllReduce, in, out, count, type, op});
}

MILLRACE_FAKE_EXPORT Result ncclReduceScatter(const void* in, void* out, size_t count,
                                              DataType type, RedOp op, Comm comm, Stream stream) {
  return EnqueueCollective(comm, stream, {Collective::kReduceScatter, in, out, count, type, op});
}

MILLRACE_FAKE_EXPORT Result ncclAllGather(const void* in, void* out, size_t count, DataType type,
                                          Comm comm, Stream stream) {
  return EnqueueCollective(comm, stream, {Collective::kAllGather, in, out, count, type});
}

MILLRACE_FAKE_EXPORT Result ncclBroadcast(const void* in, void* out, size_t count, DataType type,
                                          int root, Comm comm, Stream stream) {
  return EnqueueCollective(comm, stream,
                           {Collective::kBroadcast, in, out, count, type, RedOp::kSum, root});
}

MILLRACE_FAKE_EXPORT Result ncclReduce(const void* in, void* out, size_t count, DataType type,
                                       RedOp op, int root, Comm comm, Stream stream) {
  return EnqueueCollective(comm, stream, {Collective::kReduce, in, out, count, type, op, root});
}

MILLRACE_FAKE_EXPORT Result ncclSend(const void* in, size_t count, DataType type, int peer,
                                     Comm comm, Stream stream) {
  return AddMessage(comm, stream, {FromComm(comm)->rank, peer},
                    {.from = in, .bytes = count * SizeOf(DTypeOf(type))});
}

MILLRACE_FAKE_EXPORT Result ncclRecv(void* out, size_t count, DataType type, int peer, Comm comm,
                                     Stream stream) {
  return AddMessage(comm, stream, {peer, FromComm(comm)->rank},
                    {.to = out, .bytes = count * SizeOf(DTypeOf(type))});
}

MILLRACE_FAKE_EXPORT Result ncclRedOpCreatePreMulSum(RedOp* op, void* scalar, DataType type,
                                                     ScalarResidence residence, Comm comm) {
  if (residence != ScalarResidence::kHostImmediate) return Result::kInvalidArgument;
  double scale = 0;
  if (type == DataType::kFloat64) scale = *static_cast<double*>(scalar);
  if (type == DataType::kFloat32) scale = *static_cast<float*>(scalar);
  if (type == DataType::kFloat16) scale = ToFloat(*static_cast<Half*>(scalar));
  if (type == DataType::kBfloat16) scale = ToFloat(*static_cast<BFloat*>(scalar));
  MutexLock lock(TheWorld().mu);
  std::vector<double>& scales = FromComm(comm)->scales;
  *op = static_cast<RedOp>(static_cast<int>(RedOp::kFirstMade) + static_cast<int>(scales.size()));
  scales.push_back(scale);
  ++control.made_ops;
  return Result::kSuccess;
}

MILLRACE_FAKE_EXPORT Result ncclRedOpDestroy(RedOp, Comm) {
  --control.made_ops;
  return Result::kSuccess;
}

MILLRACE_FAKE_EXPORT Result ncclMemAlloc(void** memory, size_t bytes) {
  // As cudaMalloc: aligned, with room to spare. Zero, for tests that look.
  constexpr size_t kAlignment = 256;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  *memory = std::memset(std::aligned_alloc(kAlignment, rounded), 0, rounded);
  ++control.allocations;
  return Result::kSuccess;
}

MILLRACE_FAKE_EXPORT Result ncclMemFree(void* memory) {
  std::free(memory);
  --control.allocations;
  return Result::kSuccess;
}

MILLRACE_FAKE_EXPORT Result ncclCommRegister(Comm comm, void* memory, size_t, void** handle) {
  MutexLock lock(TheWorld().mu);
  *handle = memory;
  ++FromComm(comm)->registrations;
  ++control.registrations;
  return Result::kSuccess;
}

MILLRACE_FAKE_EXPORT Result ncclCommDeregister(Comm comm, void*) {
  MutexLock lock(TheWorld().mu);
  --FromComm(comm)->registrations;
  --control.registrations;
  return Result::kSuccess;
}

}  // namespace millrace::collectives::nccl
