#include "tests/collectives/messages/memory_transport.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <new>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace millrace::collectives {
namespace {

constexpr size_t kEagerBytes = 4096;

// One side of a message.
struct Half {
  bool sends = false;
  int from = 0;
  int to = 0;
  uint32_t tag = 0;
  std::span<const std::byte> source;
  std::span<std::byte> target;
  std::vector<std::byte> copy;  // of a short message
  uint64_t step = 0;
  bool ended = false;
  absl::Status outcome;
};

// Of one rank, in a network and in all parts of it.
struct Ledger {
  // Every thread of the rank -> CountOf.
  std::atomic<uint64_t> messages{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> steps{0};  // of the messages received so far

  void Receive(uint64_t step) {
    uint64_t before = steps;
    while (before < step && !steps.compare_exchange_weak(before, step)) {
    }
  }
};

class Network final : public MemoryNetwork, public std::enable_shared_from_this<Network> {
 public:
  explicit Network(int size) : size_(size), seats_(size) {
    for (Seat& seat : seats_) seat.ledger = std::make_shared<Ledger>();
  }

  std::unique_ptr<Transport> Connect(int rank) override;
  Count CountOf(int rank) const override {
    MutexLock lock(mu_);
    const Ledger& ledger = *seats_[rank].ledger;
    return {ledger.messages, ledger.bytes, ledger.steps};
  }
  void Kill(int rank) override { Change(rank, &Seat::killed, true); }
  void Drop(int rank) override { Change(rank, &Seat::drops, true); }
  void Hold(int rank) override { Change(rank, &Seat::held, true); }
  void HoldTo(int rank, int peer) override { Change(rank, &Seat::held_to, peer); }
  void Release(int rank) override {
    Change(rank, &Seat::held, false);
    Change(rank, &Seat::held_to, -1);
  }
  void Starve(int rank) override { Change(rank, &Seat::starves, true); }

  int size() const { return size_; }
  absl::StatusOr<Transport::Id> Begin(int rank, Half half);
  absl::StatusOr<bool> Test(int rank, Transport::Id id);
  void Cancel(int rank, Transport::Id id);
  void Idle(int rank, std::chrono::nanoseconds limit);
  void Leave(int rank);
  std::unique_ptr<Transport> Split(int rank, std::span<const Transport::Choice> choices);
  void CountFor(int rank, std::shared_ptr<Ledger> ledger) {
    MutexLock lock(mu_);
    seats_[rank].ledger = std::move(ledger);
  }

 private:
  using HalfPtr = std::shared_ptr<Half>;
  struct Seat {
    bool killed = false;
    bool drops = false;
    bool held = false;
    int held_to = -1;
    bool starves = false;
    bool left = false;
    std::shared_ptr<Ledger> ledger;
    uint64_t events = 0;  // that may have ended a message
    uint64_t seen = 0;
    CondVar
        changed;  // of its own: a machine with few cores has no time to wake all for each message
    int splits = 0;
    Transport::Id last_id = 0;
    std::map<Transport::Id, HalfPtr> halves;
  };
  struct Queue {
    std::deque<HalfPtr> sends;
    std::deque<HalfPtr> receives;
  };

  template <typename T>
  void Change(int rank, T Seat::*field, T value) {
    MutexLock lock(mu_);
    seats_[rank].*field = value;
    for (auto& [key, queue] : queues_) Match(queue);
    WakeAll();
  }
  void Wake(Seat& seat) MILLRACE_REQUIRES(mu_) {
    ++seat.events;
    seat.changed.NotifyAll();
  }
  void WakeAll() MILLRACE_REQUIRES(mu_) {
    for (Seat& seat : seats_) Wake(seat);
  }
  void Match(Queue& queue) MILLRACE_REQUIRES(mu_);
  bool Gone(int rank) const MILLRACE_REQUIRES(mu_) {
    return seats_[rank].killed || seats_[rank].left;
  }

  const int size_;
  mutable Mutex mu_;
  std::vector<Seat> seats_ MILLRACE_GUARDED_BY(mu_);
  std::map<std::tuple<int, int, uint32_t>, Queue> queues_ MILLRACE_GUARDED_BY(mu_);
  // By how often their ranks had split before, and color; kept for those that come later.
  std::map<std::pair<int, int>, std::shared_ptr<Network>> parts_ MILLRACE_GUARDED_BY(mu_);
};

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(std::shared_ptr<Network> network, int rank)
      : network_(std::move(network)), rank_(rank) {}
  ~MemoryTransport() override { network_->Leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return network_->size(); }
  int local_rank() const override { return rank_; }
  int local_size() const override { return network_->size(); }
  std::string_view name() const override { return "memory"; }

  absl::StatusOr<Id> Send(std::span<const std::byte> data, int peer, uint32_t tag) override {
    Half half;
    half.sends = true;
    half.from = rank_;
    half.to = peer;
    half.tag = tag;
    half.source = data;
    return network_->Begin(rank_, std::move(half));
  }
  absl::StatusOr<Id> Receive(std::span<std::byte> data, int peer, uint32_t tag) override {
    Half half;
    half.from = peer;
    half.to = rank_;
    half.tag = tag;
    half.target = data;
    return network_->Begin(rank_, std::move(half));
  }
  absl::Status Post(std::span<const std::byte> data, int peer, uint32_t tag) override {
    const absl::StatusOr<Id> id = Send(data, peer, tag);
    if (id.ok()) Cancel(*id);  // it has left
    return id.status();
  }
  absl::StatusOr<bool> Test(Id id) override { return network_->Test(rank_, id); }
  void Cancel(Id id) override { network_->Cancel(rank_, id); }
  void Idle(std::chrono::nanoseconds limit) override { network_->Idle(rank_, limit); }
  absl::StatusOr<std::unique_ptr<Transport>> Split(std::span<const Choice> choices) override {
    return network_->Split(rank_, choices);
  }
  void Abort(const absl::Status&) override {}

 private:
  const std::shared_ptr<Network> network_;
  const int rank_;
};

std::unique_ptr<Transport> Network::Connect(int rank) {
  return std::make_unique<MemoryTransport>(shared_from_this(), rank);
}

absl::StatusOr<Transport::Id> Network::Begin(int rank, Half half) {
  MutexLock lock(mu_);
  Seat& seat = seats_[rank];
  if (seat.killed) return absl::UnavailableError("this rank is dead");
  if (std::exchange(seat.starves, false)) throw std::bad_alloc();
  auto shared = std::make_shared<Half>(std::move(half));
  if (shared->sends) {
    ++seat.ledger->messages;
    seat.ledger->bytes += shared->source.size();
    shared->step = seat.ledger->steps + 1;
    if (seat.drops || shared->source.size() <= kEagerBytes) {
      shared->copy.assign(shared->source.begin(), shared->source.end());
      shared->source = shared->copy;
      shared->ended = true;
    }
  }
  seat.halves[++seat.last_id] = shared;
  if (shared->sends && seat.drops) return seat.last_id;
  Queue& queue = queues_[{shared->from, shared->to, shared->tag}];
  (shared->sends ? queue.sends : queue.receives).push_back(shared);
  Match(queue);
  return seat.last_id;
}

void Network::Match(Queue& queue) {
  while (!queue.sends.empty() && !queue.receives.empty()) {
    Half& send = *queue.sends.front();
    Half& receive = *queue.receives.front();
    const Seat& sender = seats_[send.from];
    if (sender.held || sender.held_to == send.to || sender.killed) return;
    if (send.source.size() == receive.target.size()) {
      std::memcpy(receive.target.data(), send.source.data(), send.source.size());
    } else {
      receive.outcome = absl::InvalidArgumentError(
          absl::StrCat(send.source.size(), " bytes came for ", receive.target.size()));
    }
    receive.step = send.step;
    send.ended = receive.ended = true;
    Wake(seats_[send.from]);
    Wake(seats_[receive.to]);
    queue.sends.pop_front();
    queue.receives.pop_front();
  }
}

absl::StatusOr<bool> Network::Test(int rank, Transport::Id id) {
  MutexLock lock(mu_);
  Seat& seat = seats_[rank];
  const HalfPtr half = seat.halves.at(id);
  const int peer = half->sends ? half->to : half->from;
  if (!half->ended && !seat.killed && !Gone(peer)) return false;
  seat.halves.erase(id);
  if (!half->ended || seat.killed) {
    Queue& queue = queues_[{half->from, half->to, half->tag}];
    std::erase(half->sends ? queue.sends : queue.receives, half);
    return absl::UnavailableError(absl::StrCat("rank ", peer, " is gone"));
  }
  if (!half->outcome.ok()) return half->outcome;
  if (!half->sends) seat.ledger->Receive(half->step);
  return true;
}

void Network::Cancel(int rank, Transport::Id id) {
  MutexLock lock(mu_);
  const HalfPtr half = seats_[rank].halves.at(id);
  seats_[rank].halves.erase(id);
  if (half->ended) return;
  Queue& queue = queues_[{half->from, half->to, half->tag}];
  std::erase(half->sends ? queue.sends : queue.receives, half);
}

void Network::Idle(int rank, std::chrono::nanoseconds limit) {
  MutexLock lock(mu_);
  Seat& seat = seats_[rank];
  if (seat.seen == seat.events) seat.changed.WaitFor(mu_, limit);
  seat.seen = seat.events;
}

void Network::Leave(int rank) {
  MutexLock lock(mu_);
  Seat& seat = seats_[rank];
  seat.left = true;
  for (auto& [id, half] : seat.halves) {
    Queue& queue = queues_[{half->from, half->to, half->tag}];
    if (!half->ended) std::erase(half->sends ? queue.sends : queue.receives, half);
  }
  seat.halves.clear();
  WakeAll();
}

std::unique_ptr<Transport> Network::Split(int rank, std::span<const Transport::Choice> choices) {
  const Transport::Choice& mine = choices[rank];
  int place = 0;
  int members = 0;
  for (int other = 0; other < size(); ++other) {
    const Transport::Choice& theirs = choices[other];
    if (theirs.color != mine.color) continue;
    ++members;
    if (std::pair(theirs.key, other) < std::pair(mine.key, rank)) ++place;
  }
  MutexLock lock(mu_);
  std::shared_ptr<Network>& part = parts_[{seats_[rank].splits++, mine.color}];
  if (part == nullptr) part = std::make_shared<Network>(members);
  part->CountFor(place, seats_[rank].ledger);
  return part->Connect(place);
}

}  // namespace

std::shared_ptr<MemoryNetwork> MemoryNetwork::Make(int size) {
  return std::make_shared<Network>(size);
}

absl::Status RunMemoryRanks(MemoryNetwork& network, int size, const RankBody& body,
                            const TransportOptions& options) {
  std::vector<absl::Status> outcomes(size);
  {
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (int rank = 0; rank < size; ++rank) {
      communicators.push_back(MakeTransportCommunicator(network.Connect(rank), options));
    }
    std::vector<std::jthread> running;
    for (int rank = 0; rank < size; ++rank) {
      running.emplace_back([&, rank] {
        const std::unique_ptr<Communicator> communicator = std::move(communicators[rank]);
        outcomes[rank] = body(*communicator);
        if (!outcomes[rank].ok()) communicator->Abort(outcomes[rank]);
      });
    }
  }
  absl::Status first;
  for (const absl::Status& outcome : outcomes) {
    if (outcome.ok()) continue;
    if (!absl::IsCancelled(outcome)) return outcome;
    if (first.ok()) first = outcome;
  }
  return first;
}

}  // namespace millrace::collectives
