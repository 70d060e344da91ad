// The operations on large data: a share per rank, in pieces. Two rounds are on their way at a time,
// so that the network works while a round is reduced.

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collectives/core/ordered_reduction.h"
#include "collectives/messages/algorithms.h"
#include "collectives/messages/cut.h"

namespace millrace::collectives {
namespace {

// Memory of the pool for as long as the coroutine lives.
class Lease {
 public:
  explicit Lease(ScratchPool& pool) : pool_(pool) {}
  ~Lease() { pool_.Return(std::move(memory_)); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  absl::Status Take(size_t bytes) { return pool_.Take(bytes, &memory_); }
  std::byte* data() { return memory_.data(); }

 private:
  ScratchPool& pool_;
  ScratchPool::Memory memory_;
};

// Pieces of a call's data, sent from and received into memory that is laid out like the whole data.
class Pieces {
 public:
  Pieces(Channel& channel, const Cut& cut) : channel_(channel), cut_(cut) {}

  // The peers of this rank in the order in which it serves them, which differs from rank to rank.
  int num_peers() const { return cut_.size() - 1; }
  int Receiver(int i) const { return (channel_.rank() + 1 + i) % cut_.size(); }
  int Sender(int i) const { return (channel_.rank() + cut_.size() - 1 - i) % cut_.size(); }

  void Send(Exchange& exchange, const std::byte* data, int owner, size_t round, int to) const {
    const Cut::Piece piece = cut_.piece(owner, round);
    exchange.Send({data + piece.offset, piece.bytes}, to);
  }
  void Receive(Exchange& exchange, std::byte* data, int owner, size_t round, int from) const {
    const Cut::Piece piece = cut_.piece(owner, round);
    exchange.Receive({data + piece.offset, piece.bytes}, from);
  }
  // Sends this rank's piece to all peers and receives theirs; `skipped` takes no part.
  void ExchangeOwn(Exchange& exchange, std::byte* data, size_t round, int skipped = -1) const {
    for (int i = 0; i < num_peers(); ++i) {
      const int to = Receiver(i);
      const int from = Sender(i);
      if (to != skipped) Send(exchange, data, channel_.rank(), round, to);
      if (from != skipped) Receive(exchange, data, from, round, from);
    }
  }

 private:
  Channel& channel_;
  const Cut& cut_;
};

const std::byte* In(const Request& request) {
  return static_cast<const std::byte*>(request.in.data);
}
std::byte* Out(const Request& request) { return static_cast<std::byte*>(request.out.data); }

// The reduction of this rank's share. Peers' pieces are received into scratch memory, in which each
// peer has one place for even and one for odd rounds.
class OwnShare {
 public:
  OwnShare(const OperationContext& context, const Cut& cut, std::byte* scratch)
      : context_(context), cut_(cut), pieces_(context.channel, cut), scratch_(scratch) {}

  static size_t ScratchBytes(const Cut& cut) {
    return (cut.num_rounds() > 1 ? 2 : 1) * cut.round_bytes();
  }

  // Every rank's piece of every share goes to the owner of the share.
  void Begin(Exchange& exchange, size_t round) {
    const Cut::Piece own = cut_.piece(context_.channel.rank(), round);
    for (int i = 0; i < pieces_.num_peers(); ++i) {
      const int to = pieces_.Receiver(i);
      pieces_.Send(exchange, In(context_.request), to, round, to);
      exchange.Receive({Place(round, pieces_.Sender(i)), own.bytes}, pieces_.Sender(i));
    }
  }
  // Reduces the received pieces to `out`.
  void Reduce(size_t round, std::byte* out) {
    const Request& request = context_.request;
    const int rank = context_.channel.rank();
    const Cut::Piece own = cut_.piece(rank, round);
    inputs_.resize(cut_.size());
    for (int r = 0; r < cut_.size(); ++r) {
      inputs_[r] = r == rank ? In(request) + own.offset : Place(round, r);
    }
    ReduceInOrder(request.in.dtype, request.op, inputs_, own.bytes / SizeOf(request.in.dtype),
                  {&out, 1});
  }

 private:
  std::byte* Place(size_t round, int rank) {
    const size_t place = rank < context_.channel.rank() ? rank : rank - 1;
    return scratch_ + round % 2 * cut_.round_bytes() + place * cut_.piece_bytes();
  }

  const OperationContext& context_;
  const Cut& cut_;
  const Pieces pieces_;
  std::byte* const scratch_;
  std::vector<const std::byte*> inputs_;
};

// Distributes a reduced piece: AllReduce exchanges it with all, Reduce collects it at the root.
void Distribute(const OperationContext& context, const Pieces& pieces, size_t round,
                Exchange& exchange) {
  const Request& request = context.request;
  const int rank = context.channel.rank();
  if (request.kind == Collective::kAllReduce) {
    return pieces.ExchangeOwn(exchange, Out(request), round);
  }
  if (request.kind != Collective::kReduce) return;
  if (rank != request.peer) {
    return pieces.Send(exchange, Out(request), rank, round, request.peer);
  }
  for (int i = 0; i < pieces.num_peers(); ++i) {
    pieces.Receive(exchange, Out(request), pieces.Sender(i), round, pieces.Sender(i));
  }
}

}  // namespace

// Memory is sent before anything is received into it: a round's results come after its inputs have
// been sent, also if `out` is `in`.
Task ReduceShares(const OperationContext& context) {
  const Request& request = context.request;
  Channel& channel = context.channel;
  const size_t bytes = request.in.size_bytes();
  const bool scatter = request.kind == Collective::kReduceScatter;
  const Cut cut = scatter ? Cut::IntoBlocks(bytes, channel.size(), context.options)
                          : Cut::IntoShares(bytes, channel.size(), context.options);
  const Pieces pieces(channel, cut);
  Lease scratch(context.scratch);
  MILLRACE_CO_RETURN_IF_ERROR(scratch.Take(OwnShare::ScratchBytes(cut)));
  OwnShare share(context, cut, scratch.data());
  // Results go where the piece lies in the whole data; ReduceScatter's output is the own block
  // only.
  const size_t skipped = scatter ? cut.piece(channel.rank(), 0).offset : 0;
  Exchange even(channel);
  Exchange odd(channel);
  Exchange results(channel);
  const std::array<Exchange*, 2> inputs = {&even, &odd};
  if (cut.num_rounds() > 0) share.Begin(even, 0);
  for (size_t round = 0; round < cut.num_rounds(); ++round) {
    if (round + 1 < cut.num_rounds()) share.Begin(*inputs[(round + 1) % 2], round + 1);
    co_await inputs[round % 2]->Ended();
    share.Reduce(round, Out(request) + cut.piece(channel.rank(), round).offset - skipped);
    co_await results.Ended();
    Distribute(context, pieces, round, results);
  }
  co_await results.Ended();
  co_return absl::OkStatus();
}

Task GatherShares(const OperationContext& context) {
  const Request& request = context.request;
  const Cut cut =
      Cut::IntoBlocks(request.out.size_bytes(), context.channel.size(), context.options);
  const Pieces pieces(context.channel, cut);
  Exchange even(context.channel);
  Exchange odd(context.channel);
  const std::array<Exchange*, 2> exchanges = {&even, &odd};
  for (size_t round = 0; round < cut.num_rounds(); ++round) {
    co_await exchanges[round % 2]->Ended();
    pieces.ExchangeOwn(*exchanges[round % 2], Out(request), round);
  }
  co_await even.Ended();
  co_await odd.Ended();
  co_return absl::OkStatus();
}

// The root sends each rank its share, which that rank sends to the others; the root's own share
// goes to all. So it sends hardly more than the others do.
Task BroadcastShares(const OperationContext& context) {
  const Request& request = context.request;
  Channel& channel = context.channel;
  const int root = request.peer;
  const Cut cut = Cut::IntoShares(request.in.size_bytes(), channel.size(), context.options);
  const Pieces pieces(channel, cut);
  Exchange even(channel);
  Exchange odd(channel);
  Exchange others(channel);
  const std::array<Exchange*, 2> roots = {&even, &odd};
  const auto begin = [&](size_t round) {
    Exchange& exchange = *roots[round % 2];
    if (channel.rank() != root) {
      pieces.Receive(exchange, Out(request), channel.rank(), round, root);
      return pieces.Receive(exchange, Out(request), root, round, root);
    }
    for (int i = 0; i < pieces.num_peers(); ++i) {
      const int to = pieces.Receiver(i);
      pieces.Send(exchange, In(request), to, round, to);
      pieces.Send(exchange, In(request), root, round, to);
    }
  };
  if (cut.num_rounds() > 0) begin(0);
  for (size_t round = 0; round < cut.num_rounds(); ++round) {
    if (round + 1 < cut.num_rounds()) begin(round + 1);
    co_await roots[round % 2]->Ended();
    co_await others.Ended();
    if (channel.rank() != root) pieces.ExchangeOwn(others, Out(request), round, root);
  }
  co_await others.Ended();
  co_return absl::OkStatus();
}

Task ExchangeShares(const OperationContext& context) {
  const Request& request = context.request;
  Channel& channel = context.channel;
  const int rank = channel.rank();
  const Cut cut = Cut::IntoBlocks(request.in.size_bytes(), channel.size(), context.options);
  const Pieces pieces(channel, cut);
  const size_t block = request.in.size_bytes() / channel.size();
  if (block > 0) std::memcpy(Out(request) + block * rank, In(request) + block * rank, block);
  Exchange even(channel);
  Exchange odd(channel);
  const std::array<Exchange*, 2> exchanges = {&even, &odd};
  for (size_t round = 0; round < cut.num_rounds(); ++round) {
    Exchange& exchange = *exchanges[round % 2];
    co_await exchange.Ended();
    for (int i = 0; i < pieces.num_peers(); ++i) {
      const int to = pieces.Receiver(i);
      const int from = pieces.Sender(i);
      pieces.Send(exchange, In(request), to, round, to);
      pieces.Receive(exchange, Out(request), from, round, from);
    }
  }
  co_await even.Ended();
  co_await odd.Ended();
  co_return absl::OkStatus();
}

}  // namespace millrace::collectives
