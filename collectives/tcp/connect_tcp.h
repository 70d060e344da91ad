#ifndef MILLRACE_COLLECTIVES_TCP_CONNECT_TCP_H_
#define MILLRACE_COLLECTIVES_TCP_CONNECT_TCP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/messages/transport.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous.h"

namespace millrace::collectives {

// Messages over TCP between processes that no MPI started. Blocks until all ranks are connected.
// Outcomes as ConnectMesh's.
absl::StatusOr<std::unique_ptr<Transport>> ConnectTcp(const RendezvousOptions& options);

// A rank that listens for the others, before it is connected to them.
struct TcpSeat {
  Socket listener;
  std::string facts;  // its addresses, for the other ranks
};

// `towards`: "HOST:PORT" of another rank, so that the address on the way there is tried first; may
// be empty.
absl::StatusOr<TcpSeat> OpenTcpSeat(const std::string& towards);

// As ConnectTcp for ranks that have told each other their facts: those of `told`, by rank. Of the
// options only rank, timeout and watch count.
absl::StatusOr<std::unique_ptr<Transport>> ConnectSeated(const TcpSeat& seat,
                                                         const std::vector<std::string>& told,
                                                         const RendezvousOptions& options);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_TCP_CONNECT_TCP_H_
