#ifndef MILLRACE_COLLECTIVES_MESSAGE_SERVER_H_
#define MILLRACE_COLLECTIVES_MESSAGE_SERVER_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/message_connection.h"

namespace millrace::collectives {

// The limits on connections that have not said yet who they are.
struct StrangerLimits {
  uint64_t first_header_bytes = 4096;  // their first message has no payload
  std::chrono::milliseconds introduction = std::chrono::seconds(2);  // until it is whole
  size_t connections = 64;  // where more come, the oldest is closed
};

// The side of a server: one thread hears and answers all clients, and never waits for one of them.
// A client is known by a number that no other one gets. A client is a stranger until its first
// message has been delivered and the server admits it; until then nothing more is read from it.
// Thread-compatible.
class MessageServer {
 public:
  // `place` is "HOST:PORT"; for a loopback address only this host can connect. Empty: a free port
  // of the loopback interface; "*": a free port of all interfaces.
  //   INVALID_ARGUMENT  `place` is of another form
  //   ALREADY_EXISTS    the port is taken
  static absl::StatusOr<std::unique_ptr<MessageServer>> Listen(const std::string& place,
                                                               const StrangerLimits& limits = {});
  ~MessageServer();

  // The places where clients connect, for MessageConnection::Connect. Names the addresses of all
  // interfaces for "*".
  const std::string& places() const { return places_; }

  struct Event {
    int client = 0;
    std::optional<Message> message;  // nullopt: the client is gone, its number means nothing more
    absl::Status why;                // the reason why it is gone
  };
  // Waits until there are events or the deadline has passed, and sends meanwhile. Returns at most
  // one message of each client.
  //   RESOURCE_EXHAUSTED  no file descriptors are left for those who come
  absl::StatusOr<std::vector<Event>> Wait(std::chrono::steady_clock::time_point deadline);

  // Takes messages up to `limits` from `client` from now on.
  void Admit(int client, const MessageLimits& limits);
  // Sends as much as goes without waiting, and the rest in Wait. A client that is gone is an event
  // of the next Wait.
  void Send(int client, Message message);
  // True if something is left to be sent to `client`.
  bool IsSending(int client) const;
  // Closes the connection, after what is left to be sent, or after two seconds. No event follows.
  void Close(int client);
  // Waits until all has been sent, two seconds at most.
  void Flush();

  // Takes over a connection to another server, as an admitted client. Returns its number.
  int Adopt(std::unique_ptr<MessageConnection> connection);

 private:
  struct Client;

  MessageServer(std::unique_ptr<Socket> listener, std::string places, const StrangerLimits& limits);
  void Poll(std::chrono::steady_clock::time_point deadline);
  absl::Status LetIn();
  void SendAway();
  void Hear(Client& client, std::vector<Event>& events);
  Client* Find(int client) const;
  void Add(std::unique_ptr<Socket> socket, bool is_stranger, const MessageLimits& limits);

  const std::unique_ptr<Socket> listener_;
  const std::string places_;
  const StrangerLimits limits_;
  std::vector<std::unique_ptr<Client>> clients_;  // in the order in which they came
  int next_ = 1;                                  // the number of the next client
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MESSAGE_SERVER_H_
