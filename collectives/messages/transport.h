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

// Messages of bytes between the ranks of a group: all that the algorithms of this folder need of a
// network, so that each of them is written once. One thread at a time.
class Transport {
 public:
  // A message on its way; 0 is none.
  using Id = uint64_t;

  // What a rank says for a split; the ranks have told each other before they call it.
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
  // As Communicator's; needed of those whose Break names ranks.
  virtual int RankInJob(int rank) const { return rank; }
  virtual std::string_view name() const = 0;  // the backend's
  // As Communicator's. Where a cancelled message is not final, whoever gives one up leaves its
  // memory to the network.
  virtual Capabilities capabilities() const { return {}; }

  // Begin a message, of at least one byte and at most 1 GiB; tags are below 32768. Those with the
  // same sender, receiver and tag arrive in the order in which they were begun on both sides. The
  // memory is left alone until the message has ended.
  virtual absl::StatusOr<Id> Send(std::span<const std::byte> data, int peer, uint32_t tag) = 0;
  virtual absl::StatusOr<Id> Receive(std::span<std::byte> data, int peer, uint32_t tag) = 0;

  // Sends a copy of a short message that nobody awaits here, also when this object is gone before
  // it has left.
  virtual absl::Status Post(std::span<const std::byte> data, int peer, uint32_t tag) = 0;

  // Makes progress without waiting. True: the message has ended, its id is no more.
  //   INVALID_ARGUMENT  the peer sent another size
  //   UNAVAILABLE       the peer is gone
  virtual absl::StatusOr<bool> Test(Id id) = 0;

  // Gives up a message: its id is no more, and its memory is not touched any longer as far as the
  // network can promise that. The group is of no use after it. Messages that are still on their way
  // in the destructor are given up too, and that is no failure.
  virtual void Cancel(Id id) = 0;

  // Gives the processor away until a message may have ended, or for `limit`.
  virtual void Idle(std::chrono::nanoseconds limit) = 0;

  // A number for Choice that this rank has not seen as a group's.
  virtual uint32_t next_group() const { return 0; }
  // Collective, as Communicator::Split. `choices` by rank, all of them good. Waits for no peer.
  //   RESOURCE_EXHAUSTED  no number is left, on every rank alike; the group is as it was
  virtual absl::StatusOr<std::unique_ptr<Transport>> Split(std::span<const Choice> choices) = 0;

  // Ends what is on its way, on this rank and as far as possible on the others.
  virtual void Abort(const absl::Status& reason) = 0;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MESSAGES_TRANSPORT_H_
