#include "cli/live/live_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/status.h"
#include "cli/live/folder.h"
#include "cli/live/without_signals.h"

namespace millrace::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);
constexpr size_t kMostClients = 8;
constexpr int kQueue = 64;  // clients that wait to be accepted

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(path + ": too long for the name of a socket");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// True if the other end is a process of this user: a folder may have been opened up.
bool IsOwn(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LiveServer>> LiveServer::Start(std::string_view folder,
                                                              std::string_view name,
                                                              Source source) {
  std::string path = SocketPath(folder, getpid(), name);
  std::unique_ptr<LiveServer> server(new LiveServer(std::move(path), std::move(source)));
  MILLRACE_RETURN_IF_ERROR(server->Listen(absl::StrCat(ToAbsl(folder), "/.", getpid())));
  MILLRACE_RETURN_IF_ERROR(Caught([&] { server->StartThread(); }));
  return server;
}

// The socket gets its name once it listens, so that one which refuses connections is of the dead.
absl::Status LiveServer::Listen(const std::string& made_at) {
  MILLRACE_RETURN_IF_ERROR(AddressOf(path_).status());
  MILLRACE_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(made_at));
  listening_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listening_.valid()) return ErrnoStatus(errno, "socket", made_at);
  stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_.valid()) return ErrnoStatus(errno, "eventfd", made_at);
  ::unlink(made_at.c_str());  // of a process that had this number
  const auto* const any = reinterpret_cast<const sockaddr*>(&address);
  const bool named =
      ::bind(listening_.get(), any, sizeof(address)) == 0 && ::chmod(made_at.c_str(), 0600) == 0 &&
      ::listen(listening_.get(), kQueue) == 0 && ::rename(made_at.c_str(), path_.c_str()) == 0;
  if (named) return absl::OkStatus();
  const absl::Status status = ErrnoStatus(errno, "bind", made_at);
  ::unlink(made_at.c_str());
  return status;
}

void LiveServer::StartThread() {
  const WithoutSignals without;
  thread_ = std::thread([this] { (void)Caught([this] { Run(); }); });
}

LiveServer::~LiveServer() {
  if (thread_.joinable()) {
    (void)::eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  if (listening_.valid()) ::unlink(path_.c_str());
}

void LiveServer::Run() {
  std::vector<pollfd> watched;
  while (true) {
    watched = {{stop_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}};
    for (const Client& client : clients_) watched.push_back({client.socket.get(), POLLOUT, 0});
    const int limit =
        clients_.empty() ? -1 : static_cast<int>(kPatience / std::chrono::milliseconds(1));
    if (::poll(watched.data(), watched.size(), limit) < 0 && errno != EINTR) return;
    if (watched[0].revents != 0) return;
    SendAll();
    if (watched[1].revents != 0) Accept();
  }
}

void LiveServer::Accept() {
  Client client{.socket = UniqueFd(
                    ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)),
                .text = "",
                .since = Clock::now()};
  if (!client.socket.valid()) {
    // The connection stays in the queue if there is no file descriptor for it.
    pollfd stop{stop_.get(), POLLIN, 0};
    if (errno != EAGAIN && errno != ECONNABORTED) ::poll(&stop, 1, 100);
    return;
  }
  if (!IsOwn(client.socket.get())) return;
  const absl::Status made = Caught([&] { client.text = source_(); });
  if (!made.ok() || !Send(client)) return;
  if (clients_.size() == kMostClients) clients_.erase(clients_.begin());
  clients_.push_back(std::move(client));
}

bool LiveServer::Send(Client& client) {
  while (client.sent < client.text.size()) {
    const ssize_t sent = ::send(client.socket.get(), client.text.data() + client.sent,
                                client.text.size() - client.sent, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    client.sent += static_cast<size_t>(sent);
  }
  return false;
}

void LiveServer::SendAll() {
  const Clock::time_point now = Clock::now();
  std::erase_if(clients_,
                [now](Client& client) { return !Send(client) || now - client.since >= kPatience; });
}

}  // namespace millrace::cli
