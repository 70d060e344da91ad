#ifndef MILLRACE_COLLECTIVES_NET_SOCKET_H_
#define MILLRACE_COLLECTIVES_NET_SOCKET_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace millrace::collectives {

using Deadline = std::chrono::steady_clock::time_point;

// The deadline `timeout` from now; the end of time for one too far away to count.
Deadline After(std::chrono::nanoseconds timeout);
// Milliseconds for poll: rounded up, 0 when the deadline is over.
int PollMs(Deadline deadline);

// Owns a TCP socket, which does not block.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}

  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  void Close() { fd_.Reset(); }

 private:
  UniqueFd fd_;
};

struct HostPort {
  std::string host;
  int port = 0;
};

// "host:port", "1.2.3.4:port" or "[::1]:port". INVALID_ARGUMENT for anything else.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

// The addresses of `host` as bytes of sockaddr, in the resolver's order; of localhost and of
// numbers in 127/8 the one that Listen takes, without a resolver.
absl::StatusOr<std::vector<std::string>> Resolve(const HostPort& place);

// Listens on `port` (0: one that is free) of `host` where that is a loopback address or
// "localhost", of all interfaces otherwise.
//   ALREADY_EXISTS  the port is taken
absl::StatusOr<Socket> Listen(const std::string& host, int port);
// The port that `socket` is bound to.
absl::StatusOr<int> PortOf(const Socket& socket);
// A connection that has come in; an invalid socket when there is none.
//   RESOURCE_EXHAUSTED  no descriptors are left
absl::StatusOr<Socket> Accept(const Socket& listener);

// Connects to one address. UNAVAILABLE and others name the call; DEADLINE_EXCEEDED;
// RESOURCE_EXHAUSTED as Accept.
absl::StatusOr<Socket> Connect(const std::string& address, Deadline deadline);

// Blocks until `socket` can be read (or written) or the deadline is over, which is false.
bool WaitFor(const Socket& socket, short events, Deadline deadline);
// Block until all bytes are sent or there. UNAVAILABLE: the other side is gone; DEADLINE_EXCEEDED.
absl::Status SendAll(const Socket& socket, std::string_view bytes, Deadline deadline);
absl::Status ReceiveAll(const Socket& socket, char* bytes, size_t count, Deadline deadline);

// This host's addresses as others may reach them, with `port`: first the one that leads to
// `towards` (may be empty), then those of all interfaces that are up, loopback left out.
inline constexpr size_t kMaxOwnAddresses = 16;
std::vector<std::string> OwnAddresses(const std::string& towards, int port);
// The loopback address with `port`.
std::string LoopbackAddress(int port);
// The same for two processes if and only if they reach each other by the loopback interface.
std::string NetworkIdentity();

// "10.0.0.1:80" or "[::1]:80".
std::string AddressText(std::string_view address);

// A random number that no other run has.
uint64_t RandomNonce();

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_NET_SOCKET_H_
