#ifndef MILLRACE_COLLECTIVES_MESSAGE_CONNECTION_H_
#define MILLRACE_COLLECTIVES_MESSAGE_CONNECTION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Messages over TCP between a server and its clients, which come and go: for exchanges that a group
// of ranks, which ends with the first rank that is lost, does not fit. A message is a header and a
// payload, of any bytes. On the wire it begins with 16 bytes: the number 0x4d524d31 ("1MRM") and
// the header's size, of 4 bytes each, and the payload's size, of 8; the lowest byte first.

namespace millrace::collectives {

class Socket;

struct Message {
  std::string header;
  std::string payload;
};

// The largest sizes that are taken from the other side. They are checked before there is memory for
// them.
struct MessageLimits {
  uint64_t header_bytes = 4096;
  uint64_t payload_bytes = 0;
};

// The side of a client. Thread-compatible.
class MessageConnection {
 public:
  // Connects to the first of `places` ("HOST:PORT,HOST:PORT") that answers. Blocks, for `timeout`
  // at most, but for the name service.
  //   INVALID_ARGUMENT    a place is no HOST:PORT
  //   RESOURCE_EXHAUSTED  no file descriptors are left
  //   UNAVAILABLE         names each place, and what went wrong there
  static absl::StatusOr<std::unique_ptr<MessageConnection>> Connect(
      const std::string& places, std::chrono::nanoseconds timeout);
  ~MessageConnection();

  void set_limits(const MessageLimits& limits) { limits_ = limits; }

  // Both block. After an error the connection is of no use.
  //   UNAVAILABLE        the other side is gone
  //   DEADLINE_EXCEEDED  `timeout` has passed without a byte; 0: no limit
  //   DATA_LOSS          the bytes are no message, or one over the limits
  absl::Status Send(std::string_view header, std::string_view payload,
                    std::chrono::nanoseconds timeout);
  absl::StatusOr<Message> Receive(std::chrono::nanoseconds timeout);

 private:
  friend class MessageServer;
  explicit MessageConnection(std::unique_ptr<Socket> socket);

  std::unique_ptr<Socket> socket_;
  MessageLimits limits_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MESSAGE_CONNECTION_H_
