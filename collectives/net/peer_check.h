#ifndef MILLRACE_COLLECTIVES_NET_PEER_CHECK_H_
#define MILLRACE_COLLECTIVES_NET_PEER_CHECK_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/net/socket.h"

namespace millrace::collectives {

struct PeerCheckLimits {
  Deadline deadline;
  // The time for one address to connect, and to answer while there are others. It is less where not
  // all addresses would have their turn otherwise.
  std::chrono::nanoseconds each;
};

// Checks over a new connection that the expected peer is at its other end.
//   FAILED_PRECONDITION  another process is
//   other                no answer, or not in time
using Introduction = std::function<absl::Status(const Socket&, Deadline)>;

// Connects to a process that has told several addresses of its host, and returns the connection to
// the first address where `introduce` succeeds. A peer that takes a connection and hangs up, or
// does not answer, is tried again until the deadline, since it may be busy or have many strangers.
// An address that refuses, that sends nothing back, or where another process answers is given up.
// Blocks.
//   UNAVAILABLE  names each address and what went wrong there
absl::StatusOr<Socket> ConnectChecked(const std::vector<std::string>& addresses,
                                      const PeerCheckLimits& limits, const Introduction& introduce);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_NET_PEER_CHECK_H_
