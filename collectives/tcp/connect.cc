// From a rendezvous to a mesh. Every rank listens on a port that is free and tells the others, at
// the rendezvous, its addresses and a number drawn for this run. Each then connects to all lower
// ranks and waits for all higher ones; both sides show each other's numbers, so that nobody else,
// and no other host with the same private address, is taken for a rank. The rank that has connected
// shows its own again after the answer: one that tries several addresses gives all connections up
// but one.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "collectives/net/peer_check.h"
#include "collectives/net/pending_connections.h"
#include "collectives/net/rendezvous.h"
#include "collectives/net/wire.h"
#include "collectives/tcp/mesh.h"

namespace millrace::collectives {
namespace {

using std::chrono::steady_clock;

constexpr uint64_t kMagic = 0x316873656d76724d;  // "Mrvmesh1"
constexpr size_t kGreetingBytes = 3 * sizeof(uint64_t) + sizeof(uint32_t);
constexpr std::chrono::seconds kAnswerWithin{10};
constexpr std::chrono::seconds kConnectAllWithin{60};
constexpr size_t kMaxStrangers = 64;

// The facts that a rank tells at the rendezvous.
struct Place {
  std::string host;
  uint64_t nonce = 0;
  std::string loopback;                // for ranks of the same host
  std::vector<std::string> addresses;  // for others
};

std::string Encode(const Place& place) {
  WireWriter writer;
  writer.Add(place.host).Add(place.nonce).Add(place.loopback);
  writer.Add(static_cast<uint32_t>(place.addresses.size()));
  for (const std::string& address : place.addresses) writer.Add(address);
  return writer.text();
}

absl::StatusOr<Place> Decode(std::string_view text, int rank) {
  WireReader reader(text);
  Place place;
  place.host = reader.String();
  place.nonce = reader.Number<uint64_t>();
  place.loopback = reader.String();
  const auto count = reader.Number<uint32_t>();
  for (uint32_t i = 0; i < count && reader.good(); ++i)
    place.addresses.emplace_back(reader.String());
  if (reader.Ended()) return place;
  return absl::FailedPreconditionError(
      absl::StrCat("rank ", rank, " told something else than its addresses at the rendezvous"));
}

// "I am `rank`, with `own`; you are the one with `other`."
std::string Greeting(int rank, uint64_t own, uint64_t other) {
  return WireWriter().Add(kMagic).Add(static_cast<uint32_t>(rank)).Add(own).Add(other).text();
}

// A host that vanishes without a word is noticed within half a minute, unless something is on its
// way to it: no time is set for that, for a peer that computes takes nothing either.
void KeepAlive(const Socket& socket) {
  const int on = 1;
  const int idle = 10;
  const int interval = 5;
  const int count = 4;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

class Connector {
 public:
  Connector(const RendezvousOptions& options, const Socket& listener,
            const std::vector<Place>& places)
      : options_(options),
        rank_(options.rank),
        listener_(listener),
        places_(places),
        deadline_(After(std::min<std::chrono::nanoseconds>(options.timeout, kConnectAllWithin))) {
    for (const Place& place : places) peers_.push_back({Socket(), place.host});
  }

  absl::StatusOr<std::vector<TcpMesh::Peer>> Run() {
    // Rank 0 accepts at once, rank 1 once it has connected to rank 0, ...: nobody waits in a
    // circle.
    for (int peer = 0; peer < rank_; ++peer) MILLRACE_RETURN_IF_ERROR(ConnectTo(peer));
    MILLRACE_RETURN_IF_ERROR(AwaitHigher());
    for (const TcpMesh::Peer& peer : peers_) {
      if (peer.socket.valid()) KeepAlive(peer.socket);
    }
    return std::move(peers_);
  }

 private:
  absl::Status ConnectTo(int peer) {
    const Place& place = places_[peer];
    const bool here = place.host == places_[rank_].host;
    std::vector<std::string> addresses = place.addresses;
    if (here) addresses = {place.loopback};
    absl::StatusOr<Socket> socket = ConnectChecked(
        addresses, {deadline_, kAnswerWithin},
        [&](const Socket& made, Deadline deadline) { return Introduce(peer, made, deadline); });
    if (!socket.ok()) {
      return absl::UnavailableError(absl::StrCat(
          "rank ", peer, " was at the rendezvous but cannot be reached from rank ", rank_, ": ",
          addresses.empty() ? "it has no address but loopback's" : socket.status().message()));
    }
    peers_[peer].socket = *std::move(socket);
    return absl::OkStatus();
  }
  // The peer answers late where it is still connecting to lower ranks itself.
  absl::Status Introduce(int peer, const Socket& socket, Deadline deadline) {
    const uint64_t own = places_[rank_].nonce;
    const uint64_t other = places_[peer].nonce;
    MILLRACE_RETURN_IF_ERROR(SendAll(socket, Greeting(rank_, own, other), deadline));
    std::string answer(kGreetingBytes, '\0');
    MILLRACE_RETURN_IF_ERROR(ReceiveAll(socket, answer.data(), answer.size(), deadline));
    if (answer != Greeting(peer, other, own)) {
      return absl::FailedPreconditionError("something else than that rank answers");
    }
    return SendAll(socket, Greeting(rank_, own, other), deadline_);
  }

  std::vector<std::string> Missing() const {
    std::vector<std::string> missing;
    for (size_t i = rank_ + 1; i < peers_.size(); ++i) {
      if (!peers_[i].socket.valid()) missing.push_back(absl::StrCat(i));
    }
    return missing;
  }
  absl::Status AwaitHigher() {
    PendingConnections pending(listener_, peers_.size() + kMaxStrangers);
    while (!Missing().empty()) {
      if (steady_clock::now() >= deadline_) {
        return absl::DeadlineExceededError(
            absl::StrCat("ranks were at the rendezvous but have not connected to rank ", rank_,
                         ": ", absl::StrJoin(Missing(), ", ")));
      }
      MILLRACE_RETURN_IF_ERROR(AskWatch(options_));
      MILLRACE_RETURN_IF_ERROR(pending.Wait({}, NextLook(options_, deadline_)));
      for (PendingConnections::Guest& guest : pending.guests()) {
        if (guest.socket.valid()) Read(guest);
      }
    }
    return absl::OkStatus();
  }
  // Answers a rank's greeting, and takes it in once it has said that it heard the answer: it may
  // have given this connection up for another. Sends a stranger away.
  void Read(PendingConnections::Guest& guest) {
    if (guest.said.size() < kGreetingBytes) {
      if (!Hear(guest, kGreetingBytes)) return;
      const int peer = Greeter(guest.said);
      const uint64_t own = places_[rank_].nonce;
      if (peer < 0 ||
          !SendAll(guest.socket, Greeting(rank_, own, places_[peer].nonce), After(kAnswerWithin))
               .ok()) {
        return guest.socket.Close();
      }
      guest.until = After(kAnswerWithin);
    }
    if (!Hear(guest, 2 * kGreetingBytes)) return;
    const int peer = Greeter(std::string_view(guest.said).substr(kGreetingBytes));
    if (peer >= 0 && !peers_[peer].socket.valid()) peers_[peer].socket = std::move(guest.socket);
    guest.socket.Close();
  }
  // The rank that says so; -1: a stranger.
  int Greeter(std::string_view said) const {
    for (size_t i = rank_ + 1; i < peers_.size(); ++i) {
      const int peer = static_cast<int>(i);
      if (said == Greeting(peer, places_[i].nonce, places_[rank_].nonce)) return peer;
    }
    return -1;
  }

  const RendezvousOptions& options_;
  const int rank_;
  const Socket& listener_;
  const std::vector<Place>& places_;
  const Deadline deadline_;
  std::vector<TcpMesh::Peer> peers_;
};

}  // namespace

absl::StatusOr<TcpSeat> OpenTcpSeat(const std::string& towards) {
  TcpSeat seat;
  MILLRACE_ASSIGN_OR_RETURN(seat.listener, Listen("", 0));
  MILLRACE_ASSIGN_OR_RETURN(const int port, PortOf(seat.listener));
  Place own;
  own.host = NetworkIdentity();
  own.nonce = RandomNonce();
  own.loopback = LoopbackAddress(port);
  own.addresses = OwnAddresses(towards, port);
  seat.facts = Encode(own);
  return seat;
}

absl::StatusOr<std::shared_ptr<TcpMesh>> ConnectMesh(const TcpSeat& seat,
                                                     const std::vector<std::string>& told,
                                                     const RendezvousOptions& options) {
  std::vector<Place> places;
  for (const std::string& text : told) {
    MILLRACE_ASSIGN_OR_RETURN(Place place, Decode(text, static_cast<int>(places.size())));
    places.push_back(std::move(place));
  }
  Connector connector(options, seat.listener, places);
  MILLRACE_ASSIGN_OR_RETURN(std::vector<TcpMesh::Peer> peers, connector.Run());
  return std::make_shared<TcpMesh>(options.rank, std::move(peers));
}

absl::StatusOr<std::shared_ptr<TcpMesh>> ConnectMesh(const RendezvousOptions& options) {
  absl::string_view towards = ToAbsl(options.address);
  absl::ConsumePrefix(&towards, "tcp:");
  absl::ConsumePrefix(&towards, "//");
  MILLRACE_ASSIGN_OR_RETURN(const TcpSeat seat, OpenTcpSeat(std::string(towards)));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> told,
                            RunRendezvous(options, seat.facts));
  return ConnectMesh(seat, told, options);
}

}  // namespace millrace::collectives
