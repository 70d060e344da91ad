#ifndef MILLRACE_COLLECTIVES_NET_PENDING_CONNECTIONS_H_
#define MILLRACE_COLLECTIVES_NET_PENDING_CONNECTIONS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/net/socket.h"

namespace millrace::collectives {

// Those who have connected to a listener and have not said who they are. Who has not done so within
// two seconds is sent away, and where too many wait, the one that has waited longest: connections
// that say nothing (port scanners, health checks, worse) keep no rank from coming.
// Thread-compatible.
class PendingConnections {
 public:
  struct Guest {
    Socket socket;  // none: to be forgotten
    std::string said;
    Deadline until;
  };

  // `listener` outlives it.
  PendingConnections(const Socket& listener, size_t max_guests)
      : listener_(listener), max_guests_(max_guests) {}

  // Blocks until someone comes, or says or does something: a guest, or one of `others`; or until
  // `deadline`. Then lets in who has come. RESOURCE_EXHAUSTED: no descriptors are left.
  absl::Status Wait(const std::vector<const Socket*>& others, Deadline deadline);

  // The first to come first. Move a socket out, or close it, and the guest is forgotten by Wait.
  std::vector<Guest>& guests() { return guests_; }

 private:
  void SendAway();
  absl::Status LetIn();

  const Socket& listener_;
  const size_t max_guests_;
  std::vector<Guest> guests_;
};

// Takes what has come of the first `wanted` bytes; true: `said` has them. Closes a connection that
// the other side has ended.
bool Hear(PendingConnections::Guest& guest, size_t wanted);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_NET_PENDING_CONNECTIONS_H_
