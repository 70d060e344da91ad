#include "cli/live/slow_answer.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "base/status.h"

namespace millrace::cli {
namespace {

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

}  // namespace

absl::StatusOr<SlowAnswer> SlowAnswer::Ask(const std::string& path, std::string_view line) {
  MILLRACE_ASSIGN_OR_RETURN(UniqueFd socket, Connect(path));
  // A line fits into the buffer of a new connection.
  if (::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) {
    if (errno == EPIPE || errno == ECONNRESET) return absl::NotFoundError(path + ": has ended");
    return ErrnoStatus(errno, "send", path);
  }
  return SlowAnswer(path, std::move(socket));
}

absl::StatusOr<bool> SlowAnswer::Take() {
  std::array<char, 65536> piece;
  while (text_.size() < kLongest) {
    const ssize_t size = ::recv(socket_.get(), piece.data(), piece.size(), 0);
    if (size == 0 && text_.empty()) return absl::NotFoundError(path_ + ": has ended");
    if (size == 0) return true;
    if (size < 0 && errno == EAGAIN) return false;
    if (size < 0 && errno == ECONNRESET) return absl::NotFoundError(path_ + ": has ended");
    if (size < 0 && errno != EINTR) return ErrnoStatus(errno, "recv", path_);
    if (size > 0) text_.append(piece.data(), static_cast<size_t>(size));
  }
  return absl::DataLossError(path_ + ": the answer is too long");
}

}  // namespace millrace::cli
