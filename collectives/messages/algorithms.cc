#include "collectives/messages/algorithms.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/core/ordered_reduction.h"

namespace millrace::collectives {
namespace {

constexpr size_t kTextBytes = 512;  // of the text about a rank's bad arguments

std::span<std::byte> Bytes(const TensorView& view) {
  return {static_cast<std::byte*>(view.data), view.size_bytes()};
}

std::span<const std::byte> Bytes(const ConstTensorView& view) {
  return {static_cast<const std::byte*>(view.data), view.size_bytes()};
}

void Copy(std::span<const std::byte> from, std::byte* to) {
  if (from.data() != to && !from.empty()) std::memcpy(to, from.data(), from.size());
}

// Small data: every rank gets all ranks' inputs and reduces them.
Task ReduceGathered(const OperationContext& context) {
  const Request& request = context.request;
  const size_t bytes = request.in.size_bytes();
  const int size = context.channel.size();
  std::vector<std::byte> all(bytes * size);
  Copy(Bytes(request.in), all.data() + bytes * context.channel.rank());
  MILLRACE_CO_RETURN_IF_ERROR(co_await GatherBlocks(context.channel, all));
  std::vector<const std::byte*> inputs;
  for (int r = 0; r < size; ++r) inputs.push_back(all.data() + bytes * r);
  std::byte* const out = static_cast<std::byte*>(request.out.data);
  ReduceInOrder(request.in.dtype, request.op, inputs, request.in.shape.num_elements(), {&out, 1});
  co_return absl::OkStatus();
}

// Small data: the root gets all ranks' inputs and reduces them.
Task ReduceAtRoot(const OperationContext& context) {
  const Request& request = context.request;
  Channel& channel = context.channel;
  Exchange exchange(channel);
  if (channel.rank() != request.peer) {
    exchange.Send(Bytes(request.in), request.peer);
    co_await exchange.Ended();
    co_return absl::OkStatus();
  }
  const size_t bytes = request.in.size_bytes();
  std::vector<std::byte> all(bytes * channel.size());
  std::vector<const std::byte*> inputs;
  for (int r = 0; r < channel.size(); ++r) {
    inputs.push_back(all.data() + bytes * r);
    if (r != channel.rank()) exchange.Receive({all.data() + bytes * r, bytes}, r);
  }
  inputs[channel.rank()] = static_cast<const std::byte*>(request.in.data);
  co_await exchange.Ended();
  std::byte* const out = static_cast<std::byte*>(request.out.data);
  ReduceInOrder(request.in.dtype, request.op, inputs, request.in.shape.num_elements(), {&out, 1});
  co_return absl::OkStatus();
}

// A group of one: its reduction is its input.
absl::Status CopyToItself(const Request& request) {
  Copy(Bytes(request.in), static_cast<std::byte*>(request.out.data));
  return absl::OkStatus();
}

}  // namespace

absl::Status ScratchPool::Take(size_t bytes, Memory* memory) {
  if (!kept_.empty()) {
    *memory = std::move(kept_.back());
    kept_.pop_back();
  }
  if (memory->size() >= bytes) return absl::OkStatus();
  try {
    memory->resize(bytes);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", bytes, " bytes on their way"));
  }
  return absl::OkStatus();
}

void ScratchPool::Return(Memory memory) {
  if (kept_.size() < kKept) kept_.push_back(std::move(memory));
}

// Bruck's algorithm: after a step of distance d, a rank has the blocks of 2d ranks from its own on.
Task GatherBlocks(Channel& channel, std::span<std::byte> blocks) {
  const int size = channel.size();
  const int rank = channel.rank();
  const size_t block = blocks.size() / size;
  std::vector<std::byte> turned(blocks.size());  // the blocks, from this rank's on
  Copy(blocks.subspan(block * rank, block), turned.data());
  Exchange exchange(channel);
  for (int distance = 1; distance < size; distance *= 2) {
    const size_t bytes = block * std::min(distance, size - distance);
    exchange.Send(std::span(turned).first(bytes), (rank + size - distance) % size);
    exchange.Receive(std::span(turned).subspan(block * distance, bytes), (rank + distance) % size);
    co_await exchange.Ended();
  }
  const size_t split = block * (size - rank);  // the block of rank 0
  Copy(std::span(turned).subspan(0, split), blocks.data() + block * rank);
  Copy(std::span(turned).subspan(split), blocks.data());
  co_return absl::OkStatus();
}

// Ranks are counted from the root. A rank whose lowest set bit is b receives from the rank without
// that bit, and sends to the ranks that have one lower bit set as well.
Task BroadcastTree(Channel& channel, std::span<std::byte> data, int root) {
  const unsigned size = channel.size();
  const unsigned place = (channel.rank() + size - root) % size;
  const auto rank_at = [size, root](unsigned at) { return static_cast<int>((at + root) % size); };
  Exchange exchange(channel);
  unsigned bit = std::bit_ceil(size);
  if (place > 0) {
    bit = place & -place;
    exchange.Receive(data, rank_at(place - bit));
    co_await exchange.Ended();
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if (place + bit < size) exchange.Send(data, rank_at(place + bit));
  }
  co_await exchange.Ended();
  co_return absl::OkStatus();
}

Task AgreeOnCall(Channel& channel, const CallSummary& mine, const absl::Status& arguments) {
  std::vector<CallSummary> calls(channel.size());
  calls[channel.rank()] = mine;
  MILLRACE_CO_RETURN_IF_ERROR(
      co_await GatherBlocks(channel, std::as_writable_bytes(std::span(calls))));
  const auto bad = std::find_if(calls.begin(), calls.end(), [](auto& call) { return call.bad; });
  if (bad == calls.end()) co_return CompareCalls(calls);
  const int rank = static_cast<int>(bad - calls.begin());
  std::string text(arguments.message().data(), arguments.message().size());
  text.resize(kTextBytes);
  MILLRACE_CO_RETURN_IF_ERROR(
      co_await BroadcastTree(channel, std::as_writable_bytes(std::span(text)), rank));
  co_return absl::InvalidArgumentError(
      absl::StrCat("rank ", rank, ": ", ToAbsl(KindName(*bad)), ": ", text.c_str()));
}

Task RunOperation(const OperationContext& context) {
  const Request& request = context.request;
  Channel& channel = context.channel;
  const size_t bytes = request.in.size_bytes();
  const bool small = bytes <= context.options.gather_bytes / channel.size();
  if (channel.size() == 1) co_return CopyToItself(request);
  switch (request.kind) {
    case Collective::kAllReduce:
      if (small) co_return co_await ReduceGathered(context);
      co_return co_await ReduceShares(context);
    case Collective::kReduce:
      if (small) co_return co_await ReduceAtRoot(context);
      co_return co_await ReduceShares(context);
    case Collective::kReduceScatter:
      co_return co_await ReduceShares(context);
    case Collective::kAllGather:
      Copy(Bytes(request.in), Bytes(request.out).data() + bytes * channel.rank());
      if (small) co_return co_await GatherBlocks(channel, Bytes(request.out));
      co_return co_await GatherShares(context);
    case Collective::kBroadcast:
      if (bytes <= context.options.gather_bytes) {
        co_return co_await BroadcastTree(channel, Bytes(request.out), request.peer);
      }
      co_return co_await BroadcastShares(context);
    case Collective::kAllToAll:
      co_return co_await ExchangeShares(context);
    default:
      co_return absl::InternalError("no algorithm for this call");
  }
}

}  // namespace millrace::collectives
