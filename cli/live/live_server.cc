#include "cli/live/live_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
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
constexpr auto kSilence = std::chrono::milliseconds(100);
constexpr size_t kLongestLine = 256;
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
                                                              std::string_view name, Source source,
                                                              Tracer tracer) {
  std::string path = SocketPath(folder, getpid(), name);
  std::unique_ptr<LiveServer> server(
      new LiveServer(std::move(path), std::move(source), std::move(tracer)));
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
    for (const Client& client : clients_) {
      // One that waits for a trace is not looked at, not even when it hangs up.
      const bool waits = client.stage == Stage::kAwaitsTrace;
      const short events = client.stage == Stage::kAsks ? POLLIN : POLLOUT;
      watched.push_back({waits ? -1 : client.socket.get(), events, 0});
    }
    if (::poll(watched.data(), watched.size(), TimeLeft()) < 0 && errno != EINTR) return;
    if (watched[0].revents != 0) return;
    std::erase_if(clients_, [this](Client& client) { return !GoOn(client); });
    if (watched[1].revents != 0) Accept();
  }
}

int LiveServer::TimeLeft() const {
  if (clients_.empty()) return -1;
  const auto first = std::ranges::min_element(clients_, {}, &Client::end);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first->end - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

void LiveServer::Accept() {
  Client client{.socket = UniqueFd(
                    ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)),
                .end = Clock::now() + kSilence};
  if (!client.socket.valid()) {
    // The connection stays in the queue if there is no file descriptor for it.
    pollfd stop{stop_.get(), POLLIN, 0};
    if (errno != EAGAIN && errno != ECONNABORTED) ::poll(&stop, 1, 100);
    return;
  }
  if (!IsOwn(client.socket.get()) || !GoOn(client)) return;
  if (clients_.size() == kMostClients) DropOne();
  clients_.push_back(std::move(client));
}

// There is one that does not wait for a trace.
void LiveServer::DropOne() {
  const auto oldest = std::ranges::find_if(
      clients_, [](const Client& client) { return client.stage != Stage::kAwaitsTrace; });
  clients_.erase(oldest);
}

bool LiveServer::GoOn(Client& client) {
  const bool is_over = Clock::now() >= client.end;
  switch (client.stage) {
    case Stage::kAsks:
      return Hear(client);
    case Stage::kAwaitsTrace:
      return !is_over || EndTrace(client);
    case Stage::kTakes:
      return Send(client) && !is_over;
  }
  return false;
}

bool LiveServer::Hear(Client& client) {
  std::array<char, kLongestLine> piece;
  const ssize_t size = ::recv(client.socket.get(), piece.data(), piece.size(), 0);
  const bool is_silent = size < 0 && (errno == EAGAIN || errno == EINTR);
  if (is_silent && Clock::now() < client.end) return true;
  if (size > 0) client.asked.append(piece.data(), static_cast<size_t>(size));
  const bool goes_on = size > 0 && client.asked.find('\n') == std::string::npos &&
                       client.asked.size() < kLongestLine;
  return goes_on || Answer(client);
}

bool LiveServer::Answer(Client& client) {
  const std::string_view asked = client.asked;
  const auto time = TraceTimeOf(asked.substr(0, asked.find('\n')));
  return time.has_value() ? BeginTrace(*time, client) : Give(source_, client);
}

bool LiveServer::BeginTrace(std::chrono::nanoseconds time, Client& client) {
  const auto refuse = [&](const char* reason) { return Give([reason] { return reason; }, client); };
  if (!tracer_.begin) return refuse("error: the program writes a trace itself (--trace)");
  if (traces_) return refuse("error: another trace is under way");
  if (!Caught(tracer_.begin).ok()) return refuse("error: the program has no memory for a trace");
  traces_ = true;
  client.stage = Stage::kAwaitsTrace;
  client.end = Clock::now() + time;
  return true;
}

bool LiveServer::EndTrace(Client& client) {
  traces_ = false;
  return Give(tracer_.end, client);
}

bool LiveServer::Give(const Source& source, Client& client) {
  client.stage = Stage::kTakes;
  client.end = Clock::now() + kPatience;
  return Caught([&] { client.text = source(); }).ok() && Send(client);
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

}  // namespace millrace::cli
