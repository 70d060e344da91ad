#include "cli/live/live_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace millrace::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTurn{10};
constexpr size_t kLongest = size_t{64} << 20;  // bytes of an answer

//   NOT_FOUND          no process listens any more; the socket is removed
//   DEADLINE_EXCEEDED  too many others wait for it
absl::StatusOr<UniqueFd> Connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(path + ": too long for the name of a socket");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return ErrnoStatus(errno, "socket", path);
  const auto* const any = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(socket.get(), any, sizeof(address)) == 0) return socket;
  if (errno == ECONNREFUSED) ::unlink(path.c_str());
  if (errno == ECONNREFUSED || errno == ENOENT) return absl::NotFoundError(path + ": has ended");
  if (errno == EAGAIN) return absl::DeadlineExceededError(path + ": its queue is full");
  return ErrnoStatus(errno, "connect", path);
}

// The system does not tell when a queue has room again.
absl::StatusOr<UniqueFd> ConnectUntil(const std::string& path, Clock::time_point end) {
  while (true) {
    absl::StatusOr<UniqueFd> socket = Connect(path);
    if (!absl::IsDeadlineExceeded(socket.status()) || Clock::now() >= end) return socket;
    std::this_thread::sleep_for(kTurn);
  }
}

// Waits until there is something to read.
absl::Status Await(int socket, Clock::time_point end, const std::string& path) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd watched{socket, POLLIN, 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(std::max<int64_t>(0, left)));
    if (ready > 0) return absl::OkStatus();
    if (ready == 0) return absl::DeadlineExceededError(path + ": does not answer");
    if (errno != EINTR) return ErrnoStatus(errno, "poll", path);
  }
}

}  // namespace

absl::StatusOr<std::string> AskText(const std::string& path, std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  MILLRACE_ASSIGN_OR_RETURN(const UniqueFd socket, ConnectUntil(path, end));
  std::string text;
  std::array<char, 65536> piece;
  while (text.size() < kLongest) {
    MILLRACE_RETURN_IF_ERROR(Await(socket.get(), end, path));
    const ssize_t size = ::recv(socket.get(), piece.data(), piece.size(), 0);
    if (size == 0 && text.empty()) return absl::NotFoundError(path + ": has ended");
    if (size == 0) return text;
    if (size < 0 && errno == ECONNRESET) return absl::NotFoundError(path + ": has ended");
    if (size < 0 && errno != EAGAIN && errno != EINTR) return ErrnoStatus(errno, "recv", path);
    if (size > 0) text.append(piece.data(), static_cast<size_t>(size));
  }
  return absl::DataLossError(path + ": the answer is too long");
}

absl::StatusOr<Snapshot> Ask(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, AskText(path));
  auto snapshot = SnapshotOfJson(text);
  if (!snapshot.ok()) return Annotate(snapshot.status(), path);
  return snapshot;
}

std::vector<Running> AskAll(const std::string& folder) {
  std::vector<Running> running;
  for (LiveSocket& socket : ListSockets(folder)) {
    absl::StatusOr<Snapshot> snapshot = Ask(socket.path);
    if (absl::IsNotFound(snapshot.status())) continue;
    running.push_back({std::move(socket), std::move(snapshot)});
  }
  return running;
}

void RemoveStale(const std::string& folder) {
  for (const LiveSocket& socket : ListSockets(folder)) {
    const bool is_gone = ::kill(static_cast<pid_t>(socket.pid), 0) != 0 && errno == ESRCH;
    if (is_gone) (void)Connect(socket.path);
  }
}

}  // namespace millrace::cli
