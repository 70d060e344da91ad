#ifndef MILLRACE_COLLECTIVES_TCP_CONNECT_TCP_H_
#define MILLRACE_COLLECTIVES_TCP_CONNECT_TCP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "collectives/messages/transport.h"
#include "collectives/rendezvous.h"

namespace millrace::collectives {

// Messages over TCP between processes that no MPI started. Blocks until all ranks are connected.
// Outcomes as ConnectMesh's.
absl::StatusOr<std::unique_ptr<Transport>> ConnectTcp(const RendezvousOptions& options);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_TCP_CONNECT_TCP_H_
