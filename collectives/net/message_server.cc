// One poll over all connections. A client is read only as far as one message, so that none of them
// takes the server's time from the others, and a stranger only as far as its first, small one.

#include "collectives/message_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "collectives/net/message_frame.h"
#include "collectives/net/socket.h"

namespace millrace::collectives {
namespace {

constexpr std::chrono::seconds kLastWords{2};  // time for what is left to be sent
constexpr char kAnyHost[] = "*";

// The bytes of `text` that recv can still fill, from `at` on; the outcome of the call.
enum class Came { kAll, kSome, kNothingMore, kGone };

Came Fill(const Socket& socket, std::string& text, size_t& at, absl::Status& why) {
  while (at < text.size()) {
    const ssize_t count = ::recv(socket.fd(), text.data() + at, text.size() - at, 0);
    if (count > 0) {
      at += static_cast<size_t>(count);
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Came::kSome;
    why = count == 0
              ? absl::UnavailableError("the connection was closed")
              : absl::UnavailableError(ErrnoStatus(errno, "receive", "connection").message());
    return Came::kGone;
  }
  return Came::kAll;
}

std::string Texts(const std::vector<std::string>& addresses) {
  const auto text = [](std::string* out, const std::string& address) {
    absl::StrAppend(out, AddressText(address));
  };
  return absl::StrJoin(addresses, ",", text);
}

}  // namespace

struct MessageServer::Client {
  int number = 0;
  std::unique_ptr<Socket> socket;
  bool is_stranger = true;     // true until it is admitted
  bool is_introduced = false;  // true if its first message was delivered
  bool is_closing = false;
  Deadline until = Deadline::max();  // of a stranger, or of one that is being closed
  MessageLimits limits;

  // The message that comes, and how far each of its parts has come.
  std::string frame = std::string(kFrameBytes, '\0');
  bool has_sizes = false;
  Message coming;
  size_t frame_at = 0;
  size_t header_at = 0;
  size_t payload_at = 0;

  std::deque<std::string> going;  // what is left to be sent
  size_t going_at = 0;            // the bytes of the first that were sent
  absl::Status broken;            // the reason why nothing can be sent

  bool listens() const { return !is_closing && broken.ok() && !(is_stranger && is_introduced); }
  void Push();
  Came Pull(absl::Status& why);
  Message Take();
};

void MessageServer::Client::Push() {
  while (!going.empty() && broken.ok()) {
    const std::string& bytes = going.front();
    const ssize_t sent =
        ::send(socket->fd(), bytes.data() + going_at, bytes.size() - going_at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) {
      broken = absl::UnavailableError(ErrnoStatus(errno, "send", "connection").message());
      return;
    }
    going_at += static_cast<size_t>(sent);
    if (going_at < bytes.size()) continue;
    going.pop_front();
    going_at = 0;
  }
}

Came MessageServer::Client::Pull(absl::Status& why) {
  Came came = Fill(*socket, frame, frame_at, why);
  if (came != Came::kAll) return came;
  if (!has_sizes) {
    why = ReadFrame(frame, limits, coming);
    if (!why.ok()) return Came::kGone;
    has_sizes = true;
  }
  came = Fill(*socket, coming.header, header_at, why);
  if (came != Came::kAll) return came;
  return Fill(*socket, coming.payload, payload_at, why);
}

Message MessageServer::Client::Take() {
  frame_at = header_at = payload_at = 0;
  has_sizes = false;
  return std::exchange(coming, Message());
}

absl::StatusOr<std::unique_ptr<MessageServer>> MessageServer::Listen(const std::string& place,
                                                                     const StrangerLimits& limits) {
  HostPort parsed = {"localhost", 0};
  if (place == kAnyHost) {
    parsed.host.clear();
  } else if (!place.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(parsed, ParseHostPort(place));
  }
  MILLRACE_ASSIGN_OR_RETURN(Socket socket, collectives::Listen(parsed.host, parsed.port));
  MILLRACE_ASSIGN_OR_RETURN(const int port, PortOf(socket));
  std::string places = place;
  if (place.empty()) places = AddressText(LoopbackAddress(port));
  if (place == kAnyHost) places = Texts(OwnAddresses("", port));
  return std::unique_ptr<MessageServer>(
      new MessageServer(std::make_unique<Socket>(std::move(socket)), std::move(places), limits));
}

MessageServer::MessageServer(std::unique_ptr<Socket> listener, std::string places,
                             const StrangerLimits& limits)
    : listener_(std::move(listener)), places_(std::move(places)), limits_(limits) {}
MessageServer::~MessageServer() = default;

MessageServer::Client* MessageServer::Find(int client) const {
  const auto found =
      std::ranges::find_if(clients_, [client](const auto& one) { return one->number == client; });
  return found == clients_.end() ? nullptr : found->get();
}

void MessageServer::Add(std::unique_ptr<Socket> socket, bool is_stranger,
                        const MessageLimits& limits) {
  auto client = std::make_unique<Client>();
  client->number = next_++;
  client->socket = std::move(socket);
  client->is_stranger = is_stranger;
  client->limits = limits;
  if (is_stranger) client->until = After(limits_.introduction);
  clients_.push_back(std::move(client));
}

int MessageServer::Adopt(std::unique_ptr<MessageConnection> connection) {
  Add(std::move(connection->socket_), /*is_stranger=*/false, connection->limits_);
  return clients_.back()->number;
}

void MessageServer::Admit(int client, const MessageLimits& limits) {
  Client* const one = Find(client);
  if (one == nullptr) return;
  one->is_stranger = false;
  one->limits = limits;
  one->until = Deadline::max();
}

void MessageServer::Send(int client, Message message) {
  Client* const one = Find(client);
  if (one == nullptr || one->is_closing) return;
  one->going.push_back(FrameOf(message.header, message.payload) + message.header);
  if (!message.payload.empty()) one->going.push_back(std::move(message.payload));
  one->Push();
}

bool MessageServer::IsSending(int client) const {
  const Client* const one = Find(client);
  return one != nullptr && !one->going.empty();
}

void MessageServer::Close(int client) {
  Client* const one = Find(client);
  if (one == nullptr) return;
  one->is_closing = true;
  one->until = After(kLastWords);
  SendAway();
}

void MessageServer::Flush() {
  const Deadline deadline = After(kLastWords);
  const auto waits = [](const auto& one) { return !one->going.empty() && one->broken.ok(); };
  while (std::ranges::any_of(clients_, waits) && std::chrono::steady_clock::now() < deadline) {
    std::vector<pollfd> waited;
    for (const auto& one : clients_) {
      if (waits(one)) waited.push_back({one->socket->fd(), POLLOUT, 0});
    }
    ::poll(waited.data(), waited.size(), PollMs(deadline));
    for (const auto& one : clients_) one->Push();
  }
}

void MessageServer::SendAway() {
  const Deadline now = std::chrono::steady_clock::now();
  std::erase_if(clients_, [now](const auto& one) {
    if (one->is_closing && (one->going.empty() || !one->broken.ok())) return true;
    return one->until <= now;
  });
}

absl::Status MessageServer::LetIn() {
  for (size_t i = 0; i < limits_.connections; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(Socket socket, Accept(*listener_));
    if (!socket.valid()) break;
    const auto is_stranger = [](const auto& one) { return one->is_stranger; };
    if (static_cast<size_t>(std::ranges::count_if(clients_, is_stranger)) >= limits_.connections) {
      clients_.erase(std::ranges::find_if(clients_, is_stranger));
    }
    Add(std::make_unique<Socket>(std::move(socket)), /*is_stranger=*/true,
        {limits_.first_header_bytes, 0});
  }
  return absl::OkStatus();
}

void MessageServer::Poll(Deadline deadline) {
  std::vector<pollfd> waited = {{listener_->fd(), POLLIN, 0}};
  for (const auto& one : clients_) {
    deadline = std::min(deadline, one->until);
    if (!one->broken.ok()) deadline = Deadline();
    const int events = (one->listens() ? POLLIN : 0) | (one->going.empty() ? 0 : POLLOUT);
    if (events != 0) waited.push_back({one->socket->fd(), static_cast<short>(events), 0});
  }
  ::poll(waited.data(), waited.size(), PollMs(deadline));
}

void MessageServer::Hear(Client& client, std::vector<Event>& events) {
  absl::Status why;
  const Came came = client.Pull(why);
  if (came == Came::kAll) {
    client.is_introduced = true;
    events.push_back({client.number, client.Take(), absl::OkStatus()});
  } else if (came == Came::kGone) {
    client.broken = why;
  }
}

absl::StatusOr<std::vector<MessageServer::Event>> MessageServer::Wait(Deadline deadline) {
  SendAway();
  Poll(deadline);
  MILLRACE_RETURN_IF_ERROR(LetIn());
  std::vector<Event> events;
  for (const auto& one : clients_) {
    one->Push();
    if (one->listens()) Hear(*one, events);
  }
  for (const auto& one : clients_) {
    if (one->broken.ok() || one->is_closing) continue;
    // Of a stranger that never said a word there is nothing to tell.
    if (!one->is_stranger || one->is_introduced) {
      events.push_back({one->number, std::nullopt, one->broken});
    }
    one->is_closing = true;
    one->going.clear();
  }
  SendAway();
  return events;
}

}  // namespace millrace::collectives
