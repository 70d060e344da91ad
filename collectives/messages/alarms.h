#ifndef MILLRACE_COLLECTIVES_MESSAGES_ALARMS_H_
#define MILLRACE_COLLECTIVES_MESSAGES_ALARMS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "collectives/messages/transport.h"
#include "collectives/peer_lost.h"

namespace millrace::collectives {

// The message by which a rank tells the others of its group that it has failed or leaves.
struct Alarm {
  static constexpr int64_t kNone = -1;
  static constexpr int64_t kAborted = -2;

  absl::Status status;
  int from = 0;
  // kNone: the group can no longer be used; kAborted: nor can groups that were split from it. Else
  // `from` has left: the first collective call, counted from the group's first, that it does not
  // join.
  int64_t first_missed = kNone;
};

// Lets the ranks of a group tell each other that the group can no longer be used, or that one
// leaves: one message from each to each, which every rank awaits from the start. Without it a rank
// could wait for ranks that wait for a failed peer. Thread-compatible.
class Alarms {
 public:
  // The tag of alarms: above those of the operations, below the limit of every MPI.
  static constexpr uint32_t kTag = 32767;

  // Begins to listen. `transport` must be destroyed first: it may still write to this object.
  explicit Alarms(Transport& transport);

  // Tells the peers, once; later calls do nothing.
  void Raise(const absl::Status& status, int64_t first_missed = Alarm::kNone);
  bool raised() const { return raised_; }

  // Asks one peer, another one each time; returns its alarm if that has come.
  std::optional<Alarm> Listen();

  // The peers of which no alarm has come, ascending.
  std::vector<int> Silent() const;

 private:
  // An alarm on the wire, in the byte order of the host.
  struct Message {
    int32_t code = 0;
    int32_t rank = 0;
    int64_t first_missed = Alarm::kNone;
    // A PeerLost; rank -1: none.
    int32_t lost_rank = -1;
    int32_t lost_bucket = -1;
    int64_t lost_step = -1;
    uint32_t lost_phase = 0;
    std::array<char, 476> text = {};
  };
  static_assert(sizeof(Message) == 512);
  struct Peer {
    int rank = 0;
    Transport::Id id = 0;  // 0: no message is awaited any more
    bool heard = false;    // true if its alarm has come
    Message message;
  };

  static absl::Status StatusOf(const Peer& peer);

  Transport& transport_;
  std::vector<Peer> peers_;
  size_t next_ = 0;      // the peer to ask next
  bool raised_ = false;  // true if this rank has raised its own alarm
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MESSAGES_ALARMS_H_
