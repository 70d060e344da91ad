#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/socket_internal.h"
#include "collectives/watchdog_links_internal.h"

namespace millrace::collectives {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kMeetingLimit{20'000};
constexpr milliseconds kLeavingLimit{2'000};
constexpr milliseconds kGreetingLimit{2'000};

// Where rank 0 listens; `token` tells this job's links from others'.
struct Meeting {
  std::array<char, 32> address{};  // as socket_internal.h's
  uint64_t address_bytes = 0;      // 0: rank 0 could not listen
  uint64_t token = 0;
};

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
  // `send_all`: this is rank 0, which tells of all hosts.
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
    Exchange(board);  // the first may have ended an older frame only
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

// The address that the others are told, which is `text` where there is one.
absl::StatusOr<std::string> AddressOf(const std::string& text, int port) {
  if (text.empty()) {
    const std::vector<std::string> own = OwnAddresses("", port);
    return own.empty() ? LoopbackAddress(port) : own.front();
  }
  in_addr address = {};
  if (::inet_pton(AF_INET, text.c_str(), &address) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not an IPv4 address"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> found, Resolve({text, port}));
  return found.front();
}

absl::StatusOr<Socket> ListenAt(const std::string& own, Meeting* meeting) {
  MILLRACE_ASSIGN_OR_RETURN(Socket socket, Listen("", 0));
  MILLRACE_ASSIGN_OR_RETURN(const int port, PortOf(socket));
  MILLRACE_ASSIGN_OR_RETURN(const std::string address, AddressOf(own, port));
  meeting->token = RandomNonce();
  meeting->address_bytes = std::min(address.size(), meeting->address.size());
  std::copy_n(address.begin(), meeting->address_bytes, meeting->address.begin());
  return socket;
}

// What a leader says when it connects; its ranks follow.
struct Greeting {
  uint64_t token = 0;
  uint64_t num_ranks = 0;
};

absl::StatusOr<Socket> ConnectTo(const Meeting& meeting, const std::vector<int>& ranks,
                                 Deadline limit) {
  const std::string address(meeting.address.data(), meeting.address_bytes);
  MILLRACE_ASSIGN_OR_RETURN(Socket socket, Connect(address, limit));
  const Greeting greeting{meeting.token, ranks.size()};
  std::string said(reinterpret_cast<const char*>(&greeting), sizeof(greeting));
  said.append(reinterpret_cast<const char*>(ranks.data()), ranks.size() * sizeof(ranks[0]));
  MILLRACE_RETURN_IF_ERROR(SendAll(socket, said, limit));
  return socket;
}

// A stranger's connection is dropped: nullopt.
std::optional<Link> Greet(Socket socket, const Meeting& meeting, int num_ranks, Deadline limit) {
  Greeting greeting;
  auto* const into = reinterpret_cast<char*>(&greeting);
  if (!ReceiveAll(socket, into, sizeof(greeting), limit).ok()) return std::nullopt;
  const bool ours = greeting.token == meeting.token && greeting.num_ranks > 0 &&
                    greeting.num_ranks < static_cast<uint64_t>(num_ranks);
  if (!ours) return std::nullopt;
  std::vector<int> ranks(greeting.num_ranks);
  auto* const bytes = reinterpret_cast<char*>(ranks.data());
  if (!ReceiveAll(socket, bytes, ranks.size() * sizeof(ranks[0]), limit).ok()) return std::nullopt;
  for (const int rank : ranks) {
    if (rank <= 0 || rank >= num_ranks) return std::nullopt;
  }
  const size_t num_pages = ranks.size();
  return Link(std::move(socket), std::move(ranks), num_pages);
}

absl::StatusOr<std::vector<Link>> AcceptAll(const Socket& listener, const Meeting& meeting,
                                            int num_links, int num_ranks, Deadline limit) {
  std::vector<Link> links;
  while (links.size() < static_cast<size_t>(num_links)) {
    if (!WaitFor(listener, POLLIN, limit)) {
      return absl::UnavailableError(absl::StrCat("only ", links.size(), " of ", num_links,
                                                 " other hosts' watchdogs have connected"));
    }
    MILLRACE_ASSIGN_OR_RETURN(Socket socket, Accept(listener));
    if (!socket.valid()) continue;
    // A stranger that says nothing must not take all the time there is.
    const Deadline soon = std::min(limit, After(kGreetingLimit));
    if (auto link = Greet(std::move(socket), meeting, num_ranks, soon)) {
      links.push_back(*std::move(link));
    }
  }
  return links;
}

absl::StatusOr<std::vector<Link>> ConnectToRank0(const Meeting& meeting,
                                                 const std::vector<int>& local_ranks, int num_ranks,
                                                 Deadline limit) {
  if (meeting.address_bytes == 0) return absl::UnavailableError("rank 0 does not listen");
  MILLRACE_ASSIGN_OR_RETURN(Socket socket, ConnectTo(meeting, local_ranks, limit));
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
  if (!own.ok()) return MarkAgreed(Annotate(own, "watchdog"));
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
  const Deadline limit = After(kMeetingLimit);
  Meeting meeting;
  Socket listener;
  absl::Status own;
  if (is_rank0) {
    absl::StatusOr<Socket> listening = ListenAt(address, &meeting);
    own = listening.status();
    if (own.ok()) listener = *std::move(listening);
  }
  MILLRACE_RETURN_IF_ERROR(
      communicator.Broadcast({&meeting, DType::kU8, Shape{sizeof(Meeting)}}, 0));
  if (leads && own.ok()) {
    absl::StatusOr<std::vector<Link>> made =
        is_rank0 ? AcceptAll(listener, meeting, static_cast<int>(hosts) - 1, num_ranks, limit)
                 : ConnectToRank0(meeting, local_ranks, num_ranks, limit);
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
