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
  // For one address to connect, and to answer while there are others: less where they would not
  // all have their turn.
  std::chrono::nanoseconds each;
};

// Finds out, with a connection that has just been made, who is at its other end.
//   FAILED_PRECONDITION  somebody else
//   other                nobody answers, or not in time
using Introduction = std::function<absl::Status(const Socket&, Deadline)>;

// Connects to a process that has told several addresses of its host: returns the connection to the
// first where `introduce` succeeds. Who takes a connection and hangs up, or does not answer, is
// tried again until the deadline, for it may be busy, or beset by strangers. An address that
// refuses, or that nothing comes back from, or where somebody else answers, is not. Blocks.
//   UNAVAILABLE  names each address and why it was none
absl::StatusOr<Socket> ConnectChecked(const std::vector<std::string>& addresses,
                                      const PeerCheckLimits& limits, const Introduction& introduce);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_NET_PEER_CHECK_H_
