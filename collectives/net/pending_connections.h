#ifndef MILLRACE_COLLECTIVES_NET_PENDING_CONNECTIONS_H_
#define MILLRACE_COLLECTIVES_NET_PENDING_CONNECTIONS_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/net/socket.h"

namespace millrace::collectives {

// The connections to a listener whose other sides have not said yet who they are. A connection that
// does not do so within `introduction` is closed, and where there are too many, the oldest one is:
// connections that say nothing (port scanners, health checks, worse) keep no rank from coming.
// Thread-compatible.
class PendingConnections {
 public:
  struct Guest {
    Socket socket;  // invalid: to be forgotten
    std::string said;
    Deadline until;  // the connection is closed then
  };

  // `listener` outlives it.
  PendingConnections(const Socket& listener, size_t max_guests,
                     std::chrono::milliseconds introduction = std::chrono::seconds(2))
      : listener_(listener), max_guests_(max_guests), introduction_(introduction) {}

  // Blocks until a connection comes in, a guest or one of `others` sends something or hangs up, or
  // the deadline has passed. Then takes in the bytes that have come. RESOURCE_EXHAUSTED: no
  // descriptors are left.
  absl::Status Wait(const std::vector<const Socket*>& others, Deadline deadline);

  // The guests in the order in which they came. Wait forgets a guest whose socket was moved out or
  // closed.
  std::vector<Guest>& guests() { return guests_; }

 private:
  void SendAway();
  absl::Status LetIn();

  const Socket& listener_;
  const size_t max_guests_;
  const std::chrono::milliseconds introduction_;
  std::vector<Guest> guests_;
};

// Takes those of the first `wanted` bytes that have come; true if `said` has them all. Closes a
// connection that the other side has ended.
bool Hear(PendingConnections::Guest& guest, size_t wanted);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_NET_PENDING_CONNECTIONS_H_
