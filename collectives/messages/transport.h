#ifndef MILLRACE_COLLECTIVES_MESSAGES_TRANSPORT_H_
#define MILLRACE_COLLECTIVES_MESSAGES_TRANSPORT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// Messages of bytes between the ranks of a group: the part of a network that the algorithms of this
// folder need, so that each of them is written once. Thread-compatible.
class Transport {
 public:
  // A message on its way; 0 is none.
  using Id = uint64_t;

  // A rank's part in a split; the ranks have exchanged them before they call Split.
  struct Choice {
    int32_t color = 0;
    int32_t key = 0;
    uint32_t next_group = 0;
  };

  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  // As Communicator's; needed if the transport's errors name ranks.
  virtual int RankInJob(int rank) const { return rank; }
  virtual std::string_view name() const = 0;  // the backend's
  // As Communicator's. If cancelling is not final, the memory of a cancelled message is left to the
  // network.
  virtual Capabilities capabilities() const { return {}; }

  // Begin a message of at least one byte and at most 1 GiB; tags are below 32768. Messages with the
  // same sender, receiver and tag arrive in the order in which they were begun on both sides. The
  // caller leaves the memory alone until the message has ended.
  virtual absl::StatusOr<Id> Send(std::span<const std::byte> data, int peer, uint32_t tag) = 0;
  virtual absl::StatusOr<Id> Receive(std::span<std::byte> data, int peer, uint32_t tag) = 0;

  // Sends a copy of a short message whose end is not awaited here; it is sent even if this object
  // is destroyed first.
  virtual absl::Status Post(std::span<const std::byte> data, int peer, uint32_t tag) = 0;

  // Makes progress without waiting. True if the message has ended; its id is then invalid.
  //   INVALID_ARGUMENT  the peer sent another size
  //   UNAVAILABLE       the peer is gone
  virtual absl::StatusOr<bool> Test(Id id) = 0;

  // Gives up a message: its id becomes invalid, and its memory is no longer touched as far as the
  // network can promise that. The group can no longer be used after it. The destructor gives up
  // messages that are still on their way, too, and that is no failure.
  virtual void Cancel(Id id) = 0;

  // Gives the processor away until a message may have ended, or for `limit`.
  virtual void Idle(std::chrono::nanoseconds limit) = 0;

  // A number for Choice that this rank has not seen as the number of a group.
  virtual uint32_t next_group() const { return 0; }
  // Collective, as Communicator::Split. `choices` are by rank, and all valid. Waits for no peer.
  //   RESOURCE_EXHAUSTED  no number is left, on every rank alike; the group is as it was
  virtual absl::StatusOr<std::unique_ptr<Transport>> Split(std::span<const Choice> choices) = 0;

  // Ends all messages on their way, on this rank and as far as possible on the others.
  virtual void Abort(const absl::Status& reason) = 0;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MESSAGES_TRANSPORT_H_
