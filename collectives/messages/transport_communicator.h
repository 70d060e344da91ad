#ifndef MILLRACE_COLLECTIVES_MESSAGES_TRANSPORT_COMMUNICATOR_H_
#define MILLRACE_COLLECTIVES_MESSAGES_TRANSPORT_COMMUNICATOR_H_

#include <cstddef>
#include <memory>

#include "collectives/communicator.h"
#include "collectives/messages/transport.h"

namespace millrace::collectives {

// The same on every rank. Performance only: results are the same for every value.
struct TransportOptions {
  // The largest message of a collective call; large data goes in pieces, one on its way while the
  // last one is reduced.
  size_t piece_bytes = 1 << 20;
  // What the peers' pieces of one round may take together: with many ranks pieces get smaller. A
  // reduction has two rounds in memory, other calls have nothing.
  size_t round_bytes = 4 << 20;
  // Where all ranks' data together takes at most this, every rank gets all of it in log2(ranks)
  // steps, instead of a share.
  size_t gather_bytes = 64 << 10;
};

// All calls of a communicator over messages, blocking and begun. On failures (a peer that is gone,
// a timeout, Abort) the ranks tell each other, so that none waits for a group that is of no use.
std::unique_ptr<Communicator> MakeTransportCommunicator(std::unique_ptr<Transport> transport,
                                                        const TransportOptions& options = {});

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MESSAGES_TRANSPORT_COMMUNICATOR_H_
