#include "collectives/watch/links.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/net/peer_check.h"
#include "collectives/net/pending_connections.h"
#include "collectives/net/socket.h"

namespace millrace::collectives {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kRendezvousLimit{20'000};
constexpr milliseconds kLeavingLimit{2'000};
constexpr milliseconds kGreetingLimit{2'000};
constexpr milliseconds kAddressLimit{5'000};
constexpr size_t kMaxStrangers = 64;

// One page on the wire, of hosts with the same byte order (as all of MPI's, Gloo's and NCCL's are).
struct WirePage {
  int64_t rank = 0;
  int64_t step = 0;
  uint64_t beat = 0;
  int32_t bucket = 0;
  uint32_t phase = 0;
  uint32_t presence = 0;
  uint32_t padding = 0;
};
struct WireVerdict {
  int32_t rank = -1;  // -1: none
  uint32_t cause = 0;
};

WirePage ToWire(int rank, const Sighting& sighting) {
  return {rank,
          sighting.step,
          sighting.beat,
          sighting.bucket,
          static_cast<uint32_t>(sighting.phase),
          static_cast<uint32_t>(sighting.presence),
          0};
}

Sighting FromWire(const WirePage& page) {
  Sighting sighting;
  sighting.step = page.step;
  sighting.bucket = page.bucket;
  sighting.phase = static_cast<Phase>(page.phase);
  sighting.presence = static_cast<Presence>(page.presence);
  sighting.beat = page.beat;
  return sighting;
}

// A connection that carries frames of known sizes and never waits.
class Link {
 public:
  // The peer's ranks; frames that come are `frame_pages` pages and a verdict.
  Link(Socket socket, std::vector<int> ranks, size_t frame_pages)
      : socket_(std::move(socket)),
        ranks_(std::move(ranks)),
        in_(sizeof(WireVerdict) + frame_pages * sizeof(WirePage)) {}

  const std::vector<int>& ranks() const { return ranks_; }
  bool open() const { return socket_.valid(); }

  // Sends the pages of `ranks` and the verdict, unless the last frame is still on its way.
  void Send(const ProgressBoard& board, const std::vector<int>& ranks) {
    if (!open()) return;
    if (out_.size() == sent_) Compose(board, ranks);
    const ssize_t sent =
        ::send(socket_.fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) sent_ += static_cast<size_t>(sent);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) socket_.Close();
  }

  // Takes all frames that have come; pages of `own_ranks` are not overwritten.
  void Receive(ProgressBoard& board, const std::vector<int>& own_ranks) {
    while (open()) {
      const ssize_t got =
          ::recv(socket_.fd(), in_.data() + received_, in_.size() - received_, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return socket_.Close();
      received_ += static_cast<size_t>(got);
      if (received_ < in_.size()) continue;
      received_ = 0;
      Apply(board, own_ranks);
    }
  }

 private:
  void Compose(const ProgressBoard& board, const std::vector<int>& ranks) {
    WireVerdict verdict;
    if (const auto given = board.verdict()) {
      verdict = {given->rank, static_cast<uint32_t>(given->cause)};
    }
    out_.resize(sizeof(verdict) + ranks.size() * sizeof(WirePage));
    sent_ = 0;
    std::memcpy(out_.data(), &verdict, sizeof(verdict));
    std::byte* at = out_.data() + sizeof(verdict);
    for (const int rank : ranks) {
      const WirePage page = ToWire(rank, board.page(rank).Read());
      std::memcpy(at, &page, sizeof(page));
      at += sizeof(page);
    }
  }

  void Apply(ProgressBoard& board, const std::vector<int>& own_ranks) {
    WireVerdict verdict;
    std::memcpy(&verdict, in_.data(), sizeof(verdict));
    for (size_t at = sizeof(verdict); at < in_.size(); at += sizeof(WirePage)) {
      WirePage page;
      std::memcpy(&page, in_.data() + at, sizeof(page));
      if (page.rank < 0 || page.rank >= board.num_ranks())
        return socket_.Close();  // not one of ours
      const int rank = static_cast<int>(page.rank);
      const bool own = std::binary_search(own_ranks.begin(), own_ranks.end(), rank);
      if (!own) board.page(rank).Write(FromWire(page));
    }
    if (verdict.rank < 0 || verdict.rank >= board.num_ranks()) return;
    board.Give({verdict.rank, static_cast<Cause>(verdict.cause)});
  }

  Socket socket_;
  const std::vector<int> ranks_;
  std::vector<std::byte> out_;
  size_t sent_ = 0;
  std::vector<std::byte> in_;
  size_t received_ = 0;
};

class TcpWatchdogLinks final : public WatchdogLinks {
 public:
  // `send_all`: true on rank 0, which sends the pages of all hosts.
  TcpWatchdogLinks(std::vector<Link> links, std::vector<int> local_ranks, bool send_all,
                   int num_ranks)
      : links_(std::move(links)), local_ranks_(std::move(local_ranks)), told_(local_ranks_) {
    if (!send_all) return;
    told_.resize(num_ranks);
    for (int rank = 0; rank < num_ranks; ++rank) told_[rank] = rank;
  }

  void Exchange(ProgressBoard& board) override {
    for (Link& link : links_) {
      link.Receive(board, local_ranks_);
      link.Send(board, told_);
      if (!link.open()) CutOff(board, link);
    }
  }

  void Leave(ProgressBoard& board) override {
    const Deadline limit = After(kLeavingLimit);
    const auto left = [&board](int rank) {
      return board.page(rank).Read().presence == Presence::kLeft;
    };
    while (Clock::now() < limit && !board.verdict() &&
           !std::all_of(told_.begin(), told_.end(), left)) {
      Exchange(board);
      std::this_thread::sleep_for(milliseconds(10));
    }
    Exchange(board);
    Exchange(board);  // the first call may only have ended an older frame
  }

 private:
  static void CutOff(ProgressBoard& board, const Link& link) {
    for (const int rank : link.ranks()) {
      if (board.page(rank).Read().presence == Presence::kLeft) continue;
      return board.Give({rank, Cause::kCutOff});
    }
  }

  std::vector<Link> links_;
  const std::vector<int> local_ranks_;  // sorted
  std::vector<int> told_;
};

// The addresses that the others are told: `text` unless it is empty.
absl::StatusOr<std::vector<std::string>> AddressesOf(const std::string& text, int port) {
  if (text.empty()) {
    std::vector<std::string> own = OwnAddresses("", port);
    if (own.empty()) own.push_back(LoopbackAddress(port));
    return own;
  }
  in_addr address = {};
  if (::inet_pton(AF_INET, text.c_str(), &address) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not an IPv4 address"));
  }
  return Resolve({text, port});
}

absl::StatusOr<Socket> ListenAt(const std::string& own, WatchdogRendezvous* rendezvous) {
  MILLRACE_ASSIGN_OR_RETURN(Socket socket, Listen("", 0));
  MILLRACE_ASSIGN_OR_RETURN(const int port, PortOf(socket));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, AddressesOf(own, port));
  rendezvous->nonce = RandomNonce();
  for (size_t i = 0; i < std::min(addresses.size(), rendezvous->addresses.size()); ++i) {
    WatchdogRendezvous::Address& told = rendezvous->addresses[i];
    told.size = std::min(addresses[i].size(), told.bytes.size());
    std::copy_n(addresses[i].begin(), told.size, told.bytes.begin());
  }
  return socket;
}

std::string Bytes(uint64_t nonce) { return {reinterpret_cast<const char*>(&nonce), sizeof(nonce)}; }

// Greets, and checks by the answer that rank 0 of this job is there.
absl::Status Introduce(const WatchdogRendezvous& rendezvous, const std::vector<int>& ranks,
                       const Socket& socket, Deadline limit) {
  const WatchdogGreeting greeting{rendezvous.nonce, ranks.size()};
  std::string said(reinterpret_cast<const char*>(&greeting), sizeof(greeting));
  said.append(reinterpret_cast<const char*>(ranks.data()), ranks.size() * sizeof(ranks[0]));
  MILLRACE_RETURN_IF_ERROR(SendAll(socket, said, limit));
  std::string answer(sizeof(rendezvous.nonce), '\0');
  MILLRACE_RETURN_IF_ERROR(ReceiveAll(socket, answer.data(), answer.size(), limit));
  if (answer != Bytes(~rendezvous.nonce)) {
    return absl::FailedPreconditionError("something else than rank 0 answers");
  }
  return SendAll(socket, Bytes(rendezvous.nonce), limit);
}

// Rank 0's side.
class Reception {
 public:
  Reception(const Socket& listener, const WatchdogRendezvous& rendezvous, size_t num_links,
            int num_ranks, Deadline limit)
      : pending_(listener, num_links + kMaxStrangers),
        nonce_(rendezvous.nonce),
        num_links_(num_links),
        num_ranks_(num_ranks),
        limit_(limit) {}

  absl::StatusOr<std::vector<Link>> Run() {
    while (links_.size() < num_links_) {
      if (Clock::now() >= limit_) {
        return absl::UnavailableError(absl::StrCat("only ", links_.size(), " of ", num_links_,
                                                   " other hosts' watchdogs have connected"));
      }
      MILLRACE_RETURN_IF_ERROR(pending_.Wait({}, limit_));
      for (PendingConnections::Guest& guest : pending_.guests()) {
        if (guest.socket.valid()) Read(guest);
      }
    }
    return std::move(links_);
  }

 private:
  // Answers a leader's greeting, and accepts the leader once it has confirmed the answer. Closes
  // the connection of a stranger.
  void Read(PendingConnections::Guest& guest) {
    WatchdogGreeting greeting;
    if (!Hear(guest, sizeof(greeting))) return;
    std::memcpy(&greeting, guest.said.data(), sizeof(greeting));
    const bool ours = greeting.nonce == nonce_ && greeting.num_ranks > 0 &&
                      greeting.num_ranks < static_cast<uint64_t>(num_ranks_);
    if (!ours) return guest.socket.Close();
    const size_t size = sizeof(greeting) + greeting.num_ranks * sizeof(int);
    if (guest.said.size() < size) {
      if (!Hear(guest, size)) return;
      if (!SendAll(guest.socket, Bytes(~nonce_), After(kGreetingLimit)).ok()) {
        return guest.socket.Close();
      }
      guest.until = limit_;
    }
    if (!Hear(guest, size + sizeof(nonce_))) return;
    if (guest.said.substr(size) == Bytes(nonce_)) TakeIn(guest, greeting.num_ranks);
    guest.socket.Close();
  }
  void TakeIn(PendingConnections::Guest& guest, size_t count) {
    std::vector<int> ranks(count);
    std::memcpy(ranks.data(), guest.said.data() + sizeof(WatchdogGreeting), count * sizeof(int));
    for (const int rank : ranks) {
      if (rank <= 0 || rank >= num_ranks_ || !ranks_.insert(rank).second) return;
    }
    links_.emplace_back(std::move(guest.socket), std::move(ranks), count);
  }

  PendingConnections pending_;
  const uint64_t nonce_;
  const size_t num_links_;
  const int num_ranks_;
  const Deadline limit_;
  std::vector<Link> links_;
  std::set<int> ranks_;  // of the links
};

absl::StatusOr<std::vector<Link>> ConnectToRank0(const WatchdogRendezvous& rendezvous,
                                                 const std::vector<int>& local_ranks, int num_ranks,
                                                 Deadline limit) {
  std::vector<std::string> addresses;
  for (const WatchdogRendezvous::Address& told : rendezvous.addresses) {
    if (told.size > 0) addresses.emplace_back(told.bytes.data(), told.size);
  }
  if (addresses.empty()) return absl::UnavailableError("rank 0 does not listen");
  MILLRACE_ASSIGN_OR_RETURN(
      Socket socket,
      ConnectChecked(addresses, {limit, kAddressLimit}, [&](const Socket& made, Deadline deadline) {
        return Introduce(rendezvous, local_ranks, made, deadline);
      }));
  std::vector<int> others;
  for (int rank = 0; rank < num_ranks; ++rank) {
    if (!std::binary_search(local_ranks.begin(), local_ranks.end(), rank)) others.push_back(rank);
  }
  std::vector<Link> links;
  links.emplace_back(std::move(socket), std::move(others), static_cast<size_t>(num_ranks));
  return links;
}

// The number of hosts; every rank learns it.
absl::StatusOr<int64_t> CountHosts(Communicator& communicator, bool leads) {
  int64_t hosts = leads ? 1 : 0;
  MILLRACE_RETURN_IF_ERROR(
      communicator.AllReduce(TensorView{&hosts, DType::kI64, Shape{1}}, ReduceOp::kSum));
  return hosts;
}

// Every rank fails when one does.
absl::Status Agree(Communicator& communicator, const absl::Status& own) {
  int64_t failed = own.ok() ? communicator.size() : communicator.rank();
  MILLRACE_RETURN_IF_ERROR(
      communicator.AllReduce(TensorView{&failed, DType::kI64, Shape{1}}, ReduceOp::kMin));
  if (!own.ok()) return Annotate(own, "watchdog");  // the others do not know why
  if (failed == communicator.size()) return absl::OkStatus();
  return MarkAgreed(absl::UnavailableError(
      absl::StrCat("rank ", failed, " cannot link its host's watchdog to the others'")));
}

}  // namespace

absl::Status WatchdogLinks::Make(Communicator& communicator, bool leads,
                                 std::vector<int> local_ranks, const std::string& address,
                                 std::unique_ptr<WatchdogLinks>* links) {
  links->reset();
  MILLRACE_ASSIGN_OR_RETURN(const int64_t hosts, CountHosts(communicator, leads));
  if (hosts == 1) return absl::OkStatus();
  const int num_ranks = communicator.size();
  const bool is_rank0 = communicator.rank() == 0;
  const Deadline limit = After(kRendezvousLimit);
  WatchdogRendezvous rendezvous;
  Socket listener;
  absl::Status own;
  if (is_rank0) {
    absl::StatusOr<Socket> listening = ListenAt(address, &rendezvous);
    own = listening.status();
    if (own.ok()) listener = *std::move(listening);
  }
  MILLRACE_RETURN_IF_ERROR(
      communicator.Broadcast({&rendezvous, DType::kU8, Shape{sizeof(rendezvous)}}, 0));
  if (leads && own.ok()) {
    absl::StatusOr<std::vector<Link>> made =
        is_rank0 ? Reception(listener, rendezvous, static_cast<size_t>(hosts) - 1, num_ranks, limit)
                       .Run()
                 : ConnectToRank0(rendezvous, local_ranks, num_ranks, limit);
    own = made.status();
    if (own.ok()) {
      *links = std::make_unique<TcpWatchdogLinks>(*std::move(made), std::move(local_ranks),
                                                  is_rank0, num_ranks);
    }
  }
  const absl::Status agreed = Agree(communicator, own);
  if (!agreed.ok()) links->reset();
  return agreed;
}

}  // namespace millrace::collectives
