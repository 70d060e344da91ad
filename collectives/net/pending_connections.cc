#include "collectives/net/pending_connections.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/status.h"

namespace millrace::collectives {
absl::Status PendingConnections::Wait(const std::vector<const Socket*>& others, Deadline deadline) {
  SendAway();
  std::vector<pollfd> waited = {{listener_.fd(), POLLIN, 0}};
  for (const Guest& guest : guests_) {
    waited.push_back({guest.socket.fd(), POLLIN, 0});
    deadline = std::min(deadline, guest.until);
  }
  for (const Socket* other : others) waited.push_back({other->fd(), POLLIN, 0});
  ::poll(waited.data(), waited.size(), PollMs(deadline));
  return LetIn();
}

void PendingConnections::SendAway() {
  const Deadline now = std::chrono::steady_clock::now();
  std::erase_if(guests_,
                [now](const Guest& guest) { return !guest.socket.valid() || guest.until <= now; });
}

absl::Status PendingConnections::LetIn() {
  // Not without end, for those who are there are to be heard in between.
  for (size_t i = 0; i < max_guests_; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(Socket socket, Accept(listener_));
    if (!socket.valid()) break;
    if (guests_.size() == max_guests_) guests_.erase(guests_.begin());
    guests_.push_back({std::move(socket), "", After(introduction_)});
  }
  return absl::OkStatus();
}

bool Hear(PendingConnections::Guest& guest, size_t wanted) {
  char bytes[4096];
  while (guest.said.size() < wanted) {
    const size_t size = std::min(wanted - guest.said.size(), sizeof(bytes));
    const ssize_t count = ::recv(guest.socket.fd(), bytes, size, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return false;
    if (count <= 0) {
      guest.socket.Close();
      return false;
    }
    guest.said.append(bytes, static_cast<size_t>(count));
  }
  return true;
}

}  // namespace millrace::collectives
