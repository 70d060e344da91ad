#ifndef MILLRACE_TESTS_COLLECTIVES_MESSAGES_MEMORY_TRANSPORT_H_
#define MILLRACE_TESTS_COLLECTIVES_MESSAGES_MEMORY_TRANSPORT_H_

// A network between threads of this process that counts what goes through it and does harm on
// demand. Like MPI's, short messages leave at once and long ones wait for their receiver.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "collectives/messages/transport.h"
#include "collectives/messages/transport_communicator.h"
#include "tests/collectives/test_buffer.h"

namespace millrace::collectives {

// Thread-safe.
class MemoryNetwork {
 public:
  struct Count {
    uint64_t messages = 0;  // sent
    uint64_t bytes = 0;
    uint64_t steps = 0;  // the longest chain of messages, each sent after the last one was received
  };

  static std::shared_ptr<MemoryNetwork> Make(int size);
  virtual ~MemoryNetwork() = default;

  // The seat of a rank, once each. The rank has left when it is gone.
  virtual std::unique_ptr<Transport> Connect(int rank) = 0;
  // In this network and in all groups that were split from it.
  virtual Count CountOf(int rank) const = 0;

  // From now on every message from and to `rank` fails.
  virtual void Kill(int rank) = 0;
  // Messages that `rank` begins vanish; it believes them sent.
  virtual void Drop(int rank) = 0;
  // Messages that `rank` begins stay on their way until Release.
  virtual void Hold(int rank) = 0;
  // The same of those to `peer`.
  virtual void HoldTo(int rank, int peer) = 0;
  virtual void Release(int rank) = 0;
  // The next message that `rank` begins throws std::bad_alloc.
  virtual void Starve(int rank) = 0;
};

// RunRanks over `network`: a rank that fails aborts the group. The status of the lowest rank that
// failed by itself.
absl::Status RunMemoryRanks(MemoryNetwork& network, int size, const RankBody& body,
                            const TransportOptions& options = {});

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_MESSAGES_MEMORY_TRANSPORT_H_
