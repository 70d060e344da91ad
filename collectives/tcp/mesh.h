#ifndef MILLRACE_COLLECTIVES_TCP_MESH_H_
#define MILLRACE_COLLECTIVES_TCP_MESH_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous.h"
#include "collectives/tcp/connect_tcp.h"

// One TCP connection between each two ranks, and messages of several groups over it.
//
// A message of up to 64 KiB goes at once; a rank that has not asked for it yet keeps it. A longer
// one is announced, and sent when its receiver has a place for it: into the receiver's memory,
// never into a buffer of ours. A short one is announced too while the peer keeps many that nobody
// there has asked for. So one group that is slow keeps no other group's messages from arriving, and
// memory stays bounded. Frames tell their size, so that unequal sizes are found out, not waited
// for.

namespace millrace::collectives {

class TcpMesh {
 public:
  using Id = uint64_t;

  struct Peer {
    Socket socket;     // none for this rank itself
    std::string host;  // NetworkIdentity
  };

  // `peers` by rank.
  TcpMesh(int rank, std::vector<Peer> peers);
  ~TcpMesh();
  TcpMesh(const TcpMesh&) = delete;
  TcpMesh& operator=(const TcpMesh&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  bool OnOneHost(int a, int b) const { return hosts_[a] == hosts_[b]; }

  // As Transport's; `peer` is a rank of the mesh.
  absl::StatusOr<Id> Send(std::span<const std::byte> data, int peer, uint32_t group, uint32_t tag);
  absl::StatusOr<Id> Receive(std::span<std::byte> data, int peer, uint32_t group, uint32_t tag);
  absl::StatusOr<bool> Test(Id id);
  void Cancel(Id id);
  void Idle(std::chrono::nanoseconds limit);
  // Every later call returns `reason`; the peers find this rank gone.
  void Abort(const absl::Status& reason);

  // Group numbers: each call of Split agrees on one that none of its members has used.
  uint32_t next_group() const;
  void set_next_group(uint32_t group);
  // Nobody here receives messages of `group` any more: those that have come, or will, are dropped.
  void EndGroup(uint32_t group);

 private:
  using Key = uint64_t;  // group and tag

  static constexpr size_t kMaxShort = 64 << 10;
  // The most bytes of short messages that the peer is not known to have taken; further ones are
  // announced.
  static constexpr size_t kMaxUntaken = 16 << 20;
  // How much is taken before its sender is told.
  static constexpr size_t kTellTaken = kMaxUntaken / 4;
  // A peer that sends still more that nobody asks for is not read until something is.
  static constexpr size_t kMaxArrived = 64 << 20;
  // The bytes that a key takes of it; its queue begins with half a kilobyte.
  static constexpr size_t kKeyBytes = 1 << 10;

  enum Kind : uint32_t {
    kShort = 1,  // group, tag, size; the message follows
    kAnnounced,  // group, tag, id, size
    kGrant,      // id: send it
    kData,       // id, size; the message follows
    kRefused,    // id: the receiver waits for another size
    kGivenUp,    // id: the sender does not send it after all
    kTaken,      // size: so many more bytes of short messages, with headers, are not kept any more
  };
  struct Message {
    bool sends = false;  // true if this rank sends it
    int peer = 0;
    Key key = 0;
    const std::byte* source = nullptr;  // the payload, when it sends
    std::byte* target = nullptr;        // the place for the payload, when it receives
    size_t size = 0;
    bool announced = false;  // true if it is long: the receiver grants it a place first
    bool granted = false;    // true if announced, and the receiver has a place for it
    bool ended = false;      // true if it has its outcome
    absl::Status outcome;
  };
  struct Header {
    uint32_t kind = 0;
    uint32_t group = 0;
    uint32_t tag = 0;
    uint32_t unused = 0;
    uint64_t id = 0;  // the number of the message at its sender
    uint64_t size = 0;
  };
  struct Frame {
    Header header;
    const std::byte* payload = nullptr;
    size_t payload_size = 0;
    size_t written = 0;
    Id message = 0;                // ended by the last byte; 0: none
    std::vector<std::byte> owned;  // the rest of the payload, of a message that was given up
  };
  // A message that came before this rank asked for it: a short one, or the announcement of a long
  // one.
  struct Arrival {
    bool announced = false;  // true for the announcement of a long message
    uint64_t id = 0;
    uint64_t size = 0;
    std::vector<std::byte> data;
    // The bytes that it takes of kMaxArrived, with its place in the queue of its key.
    size_t bytes() const { return sizeof(Arrival) + data.size(); }
  };
  using Arrivals = std::map<Key, std::deque<Arrival>>;
  struct Connection {
    Socket socket;
    absl::Status broken;
    std::deque<Frame> out;
    // The frame that is being read: its header, then `left` bytes into a message (at `target`),
    // into `arrival`, or nowhere.
    Header header;
    size_t header_read = 0;
    size_t left = 0;
    std::byte* target = nullptr;
    Id message = 0;
    bool keeps = false;  // true if the payload goes to `arrival`
    Arrival arrival;
    std::map<Key, std::deque<Id>> posted;
    Arrivals arrived;
    size_t arrived_bytes = 0;
    size_t untaken = 0;       // bytes of short messages to the peer, as its kTaken say
    size_t taken_untold = 0;  // bytes of short messages from the peer
    std::unordered_map<uint64_t, Id> granted;  // the sender's message -> ours
  };

  static Key KeyOf(uint32_t group, uint32_t tag) { return uint64_t{group} << 32 | tag; }

  absl::Status Usable(int peer) const MILLRACE_REQUIRES(mu_);
  void End(Id id, absl::Status outcome) MILLRACE_REQUIRES(mu_);
  void Break(int peer, const absl::Status& cause) MILLRACE_REQUIRES(mu_);
  void Queue(int peer, const Header& header, std::span<const std::byte> payload, Id message)
      MILLRACE_REQUIRES(mu_);
  void Write(int peer) MILLRACE_REQUIRES(mu_);
  void Read(int peer) MILLRACE_REQUIRES(mu_);
  void OnHeader(int peer) MILLRACE_REQUIRES(mu_);
  void OnShort(int peer) MILLRACE_REQUIRES(mu_);
  void OnAnnounced(int peer) MILLRACE_REQUIRES(mu_);
  void OnGrant(int peer) MILLRACE_REQUIRES(mu_);
  void OnData(int peer) MILLRACE_REQUIRES(mu_);
  void OnPayload(int peer) MILLRACE_REQUIRES(mu_);
  // The first receive that waits for `key`, which no longer waits; 0: none.
  Id TakePosted(Connection& connection, Key key) MILLRACE_REQUIRES(mu_);
  static void Keep(Connection& connection, Key key, Arrival arrival);
  // The first message that has come for the key of `arrived`, which is forgotten with its last one.
  static Arrival TakeArrived(Connection& connection, Arrivals::iterator arrived);
  bool HasEnded(uint32_t group) const MILLRACE_REQUIRES(mu_);
  // A short message of `size` bytes from the peer is not kept, or no longer.
  void Took(int peer, size_t size) MILLRACE_REQUIRES(mu_);
  // A message to the peer that waits for its grant; null: none of this id.
  Message* FindAnnounced(int peer, Id id) MILLRACE_REQUIRES(mu_);
  void Answer(int peer, Id message, uint64_t sender_id, uint64_t size) MILLRACE_REQUIRES(mu_);
  absl::Status UnequalSizes(const Message& message, uint64_t sent) const;
  void Progress(std::chrono::nanoseconds limit);

  const int rank_;
  const std::vector<std::string> hosts_;  // the host of each rank

  mutable Mutex mu_;
  std::vector<Connection> connections_ MILLRACE_GUARDED_BY(mu_);  // by rank
  std::unordered_map<Id, Message> messages_ MILLRACE_GUARDED_BY(mu_);
  Id last_id_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint32_t next_group_ MILLRACE_GUARDED_BY(mu_) = 1;
  std::map<uint32_t, uint32_t> ended_groups_ MILLRACE_GUARDED_BY(mu_);  // runs: first -> last
  absl::Status aborted_ MILLRACE_GUARDED_BY(mu_);
};

// Connects `seat` to the other ranks, whose facts are `told`, by rank. Blocks until each of them
// has called it too, or for the options' timeout.
//   UNAVAILABLE          a rank cannot be reached; names its addresses
//   DEADLINE_EXCEEDED    a rank does not connect
//   FAILED_PRECONDITION  `told` is not what OpenTcpSeat made
absl::StatusOr<std::shared_ptr<TcpMesh>> ConnectMesh(const TcpSeat& seat,
                                                     const std::vector<std::string>& told,
                                                     const RendezvousOptions& options);
// Meets the other ranks and connects to each. Outcomes as RunRendezvous' and the above.
absl::StatusOr<std::shared_ptr<TcpMesh>> ConnectMesh(const RendezvousOptions& options);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_TCP_MESH_H_
