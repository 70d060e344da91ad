#ifndef MILLRACE_COLLECTIVES_MESSAGES_TRANSPORT_COMMUNICATOR_H_
#define MILLRACE_COLLECTIVES_MESSAGES_TRANSPORT_COMMUNICATOR_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "collectives/communicator.h"
#include "collectives/messages/transport.h"

namespace millrace::collectives {

// The limits are the same on every rank. Performance only: results are the same for every value.
struct TransportOptions {
  // The largest message of a collective call. Large data is sent in pieces; one is on its way while
  // the one before it is reduced.
  size_t piece_bytes = 1 << 20;
  // The most bytes that the peers' pieces of one round take together: with many ranks pieces get
  // smaller. A reduction keeps two rounds in memory, other calls none.
  size_t round_bytes = 4 << 20;
  // If all ranks' data together takes at most this, every rank gets all of it in log2(ranks) steps,
  // instead of a share.
  size_t gather_bytes = 64 << 10;
  // The clock of timeouts; tests put one of their own in its place.
  std::function<std::chrono::steady_clock::time_point()> clock = &std::chrono::steady_clock::now;
};

// All calls of a communicator over messages, blocking and begun. On failures (a peer that is gone,
// a timeout, Abort) the ranks tell each other, so that none waits in a group that has failed.
std::unique_ptr<Communicator> MakeTransportCommunicator(std::unique_ptr<Transport> transport,
                                                        const TransportOptions& options = {});

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MESSAGES_TRANSPORT_COMMUNICATOR_H_
