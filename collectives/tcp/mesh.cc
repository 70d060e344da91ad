#include "collectives/tcp/mesh.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/peer_lost.h"

namespace millrace::collectives {
namespace {

// To get out what has been queued before an abort.
constexpr std::chrono::milliseconds kFlushWithin{200};
constexpr int kMaxDrains = 1024;

std::vector<std::string> Hosts(const std::vector<TcpMesh::Peer>& peers) {
  std::vector<std::string> hosts;
  for (const TcpMesh::Peer& peer : peers) hosts.push_back(peer.host);
  return hosts;
}

}  // namespace

TcpMesh::TcpMesh(int rank, std::vector<Peer> peers) : rank_(rank), hosts_(Hosts(peers)) {
  MutexLock lock(mu_);
  connections_.resize(peers.size());
  for (size_t i = 0; i < peers.size(); ++i) connections_[i].socket = std::move(peers[i].socket);
}

TcpMesh::~TcpMesh() {
  MutexLock lock(mu_);
  for (Connection& connection : connections_) {
    if (!connection.socket.valid()) continue;
    // A socket that is closed with bytes unread resets the connection, and a peer may lose what was
    // sent to it last.
    ::shutdown(connection.socket.fd(), SHUT_WR);
    std::array<char, 4096> bytes;
    for (int i = 0; i < kMaxDrains; ++i) {
      if (::recv(connection.socket.fd(), bytes.data(), bytes.size(), 0) <= 0) break;
    }
  }
}

uint32_t TcpMesh::next_group() const {
  MutexLock lock(mu_);
  return next_group_;
}

void TcpMesh::set_next_group(uint32_t group) {
  MutexLock lock(mu_);
  // Never back: a number that has ended would be dropped.
  next_group_ = std::max(next_group_, group);
}

void TcpMesh::EndGroup(uint32_t group) {
  MutexLock lock(mu_);
  if (!aborted_.ok() || HasEnded(group)) return;
  // Joined with the runs on both sides.
  auto run = ended_groups_.emplace(group, group).first;
  if (run != ended_groups_.begin()) {
    const auto before = std::prev(run);
    if (before->second + 1 == group) {
      before->second = group;
      ended_groups_.erase(run);
      run = before;
    }
  }
  if (const auto after = std::next(run); after != ended_groups_.end()) {
    if (after->first == group + 1) {
      run->second = after->second;
      ended_groups_.erase(after);
    }
  }
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    auto arrived = connection.arrived.lower_bound(KeyOf(group, 0));
    while (arrived != connection.arrived.end() && arrived->first >> 32 == group) {
      const Arrival arrival = TakeArrived(connection, arrived);
      if (!arrival.announced) Took(static_cast<int>(i), arrival.size);
      arrived = connection.arrived.lower_bound(KeyOf(group, 0));
    }
  }
}

bool TcpMesh::HasEnded(uint32_t group) const {
  const auto after = ended_groups_.upper_bound(group);
  return after != ended_groups_.begin() && group <= std::prev(after)->second;
}

absl::Status TcpMesh::Usable(int peer) const {
  MILLRACE_RETURN_IF_ERROR(aborted_);
  return connections_[peer].broken;
}

void TcpMesh::End(Id id, absl::Status outcome) {
  const auto found = messages_.find(id);
  if (found == messages_.end() || found->second.ended) return;
  found->second.ended = true;
  found->second.outcome = std::move(outcome);
}

void TcpMesh::Break(int peer, const absl::Status& cause) {
  Connection& connection = connections_[peer];
  if (!connection.broken.ok()) return;
  connection.broken =
      absl::UnavailableError(absl::StrCat("rank ", peer, " is gone: ", cause.message()));
  AddPeerLost(connection.broken, {.rank = peer});
  connection.socket.Close();
  connection.out.clear();
  connection.posted.clear();
  connection.granted.clear();
  for (auto& [id, message] : messages_) {
    if (message.peer != peer || message.ended) continue;
    message.ended = true;
    message.outcome = connection.broken;
  }
}

absl::Status TcpMesh::UnequalSizes(const Message& message, uint64_t sent) const {
  return absl::InvalidArgumentError(absl::StrCat("rank ", message.peer, " sends ", sent,
                                                 " bytes where rank ", rank_, " receives ",
                                                 message.size));
}

void TcpMesh::Queue(int peer, const Header& header, std::span<const std::byte> payload,
                    Id message) {
  Frame frame;
  frame.header = header;
  frame.payload = payload.data();
  frame.payload_size = payload.size();
  frame.message = message;
  connections_[peer].out.push_back(std::move(frame));
  if (connections_[peer].out.size() == 1) Write(peer);
}

absl::StatusOr<TcpMesh::Id> TcpMesh::Send(std::span<const std::byte> data, int peer, uint32_t group,
                                          uint32_t tag) {
  MutexLock lock(mu_);
  MILLRACE_RETURN_IF_ERROR(Usable(peer));
  const Id id = ++last_id_;
  Message& message = messages_[id];
  message.sends = true;
  message.peer = peer;
  message.key = KeyOf(group, tag);
  message.source = data.data();
  message.size = data.size();
  Connection& connection = connections_[peer];
  const size_t on_the_wire = sizeof(Header) + data.size();
  const bool is_short = data.size() <= kMaxShort && connection.untaken + on_the_wire <= kMaxUntaken;
  if (is_short) connection.untaken += on_the_wire;
  message.announced = !is_short;
  Queue(peer, {is_short ? kShort : kAnnounced, group, tag, 0, id, data.size()},
        is_short ? data : std::span<const std::byte>(), is_short ? id : 0);
  return id;
}

absl::StatusOr<TcpMesh::Id> TcpMesh::Receive(std::span<std::byte> data, int peer, uint32_t group,
                                             uint32_t tag) {
  MutexLock lock(mu_);
  MILLRACE_RETURN_IF_ERROR(aborted_);
  Connection& connection = connections_[peer];
  const Key key = KeyOf(group, tag);
  const auto arrived = connection.arrived.find(key);
  // A message that a peer sent before it went is still good.
  if (arrived == connection.arrived.end()) MILLRACE_RETURN_IF_ERROR(connection.broken);
  const Id id = ++last_id_;
  Message& message = messages_[id];
  message.peer = peer;
  message.key = key;
  message.target = data.data();
  message.size = data.size();
  if (arrived == connection.arrived.end()) {
    connection.posted[key].push_back(id);
    return id;
  }
  const Arrival arrival = TakeArrived(connection, arrived);
  if (arrival.announced && !connection.broken.ok()) {
    End(id, connection.broken);
  } else if (arrival.announced) {
    Answer(peer, id, arrival.id, arrival.size);
  } else if (arrival.size != data.size()) {
    Took(peer, arrival.size);
    End(id, UnequalSizes(message, arrival.size));
  } else {
    Took(peer, arrival.size);
    if (arrival.size > 0) std::memcpy(data.data(), arrival.data.data(), arrival.size);
    End(id, absl::OkStatus());
  }
  return id;
}

absl::StatusOr<bool> TcpMesh::Test(Id id) {
  for (const bool second : {false, true}) {
    {
      MutexLock lock(mu_);
      const auto found = messages_.find(id);
      if (found == messages_.end()) return absl::InternalError("no such message");
      if (found->second.ended || !aborted_.ok()) {
        const absl::Status outcome = found->second.ended ? found->second.outcome : aborted_;
        messages_.erase(found);
        if (!outcome.ok()) return outcome;
        return true;
      }
    }
    if (!second) Progress(std::chrono::nanoseconds(0));
  }
  return false;
}

void TcpMesh::Cancel(Id id) {
  MutexLock lock(mu_);
  const auto found = messages_.find(id);
  if (found == messages_.end()) return;
  const Message message = std::move(found->second);
  messages_.erase(found);
  Connection& connection = connections_[message.peer];
  for (size_t i = 0; i < connection.out.size(); ++i) {
    Frame& frame = connection.out[i];
    if (frame.message != id) continue;
    if (frame.written == 0 && message.announced) {
      // Its receiver, who has granted it, waits for it or for this.
      frame = Frame();
      frame.header = {kGivenUp, 0, 0, 0, id, 0};
      break;
    }
    if (frame.written == 0) {
      connection.untaken -= std::min(connection.untaken, sizeof(Header) + message.size);
      connection.out.erase(connection.out.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    // The peer has a part of it already: it gets the rest, out of memory of our own.
    frame.owned.assign(frame.payload, frame.payload + frame.payload_size);
    frame.payload = frame.owned.data();
    frame.message = 0;
  }
  if (const auto posted = connection.posted.find(message.key); posted != connection.posted.end()) {
    std::erase(posted->second, id);
    if (posted->second.empty()) connection.posted.erase(posted);
  }
  std::erase_if(connection.granted, [id](const auto& grant) { return grant.second == id; });
  if (connection.message == id) {
    connection.message = 0;
    connection.target = nullptr;
  }
}

void TcpMesh::Idle(std::chrono::nanoseconds limit) { Progress(limit); }

void TcpMesh::Abort(const absl::Status& reason) {
  const Deadline deadline = After(kFlushWithin);
  const auto unsent = [this] {
    MutexLock lock(mu_);
    return std::any_of(connections_.begin(), connections_.end(),
                       [](const Connection& connection) { return !connection.out.empty(); });
  };
  while (unsent() && std::chrono::steady_clock::now() < deadline) {
    Progress(std::chrono::milliseconds(10));
  }
  MutexLock lock(mu_);
  if (!aborted_.ok()) return;
  aborted_ = reason.ok() ? absl::CancelledError("aborted") : reason;
  for (Connection& connection : connections_) {
    connection.out.clear();
    if (connection.socket.valid()) ::shutdown(connection.socket.fd(), SHUT_WR);
  }
}

void TcpMesh::Progress(std::chrono::nanoseconds limit) {
  std::vector<pollfd> waited;
  std::vector<int> peers;
  {
    MutexLock lock(mu_);
    if (!aborted_.ok()) return;
    for (size_t i = 0; i < connections_.size(); ++i) {
      const Connection& connection = connections_[i];
      if (!connection.socket.valid()) continue;
      short events = connection.arrived_bytes < kMaxArrived ? POLLIN : 0;
      if (!connection.out.empty()) events |= POLLOUT;
      waited.push_back({connection.socket.fd(), events, 0});
      peers.push_back(static_cast<int>(i));
    }
  }
  timespec time{};
  time.tv_sec = static_cast<time_t>(limit.count() / 1000000000);
  time.tv_nsec = static_cast<long>(limit.count() % 1000000000);
  if (::ppoll(waited.data(), waited.size(), &time, nullptr) <= 0) return;
  MutexLock lock(mu_);
  // Once aborted, the memory of messages is their owners' again.
  if (!aborted_.ok()) return;
  for (size_t i = 0; i < waited.size(); ++i) {
    if ((waited[i].revents & POLLOUT) != 0) Write(peers[i]);
    if ((waited[i].revents & (POLLIN | POLLERR | POLLHUP)) != 0) Read(peers[i]);
  }
}

void TcpMesh::Write(int peer) {
  Connection& connection = connections_[peer];
  while (!connection.out.empty() && connection.socket.valid()) {
    Frame& frame = connection.out.front();
    std::array<iovec, 2> parts;
    size_t num_parts = 0;
    const size_t of_header = std::min(frame.written, sizeof(Header));
    const size_t of_payload = frame.written - of_header;
    if (of_header < sizeof(Header)) {
      parts[num_parts++] = {reinterpret_cast<char*>(&frame.header) + of_header,
                            sizeof(Header) - of_header};
    }
    if (of_payload < frame.payload_size) {
      parts[num_parts++] = {const_cast<std::byte*>(frame.payload) + of_payload,
                            frame.payload_size - of_payload};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = num_parts;
    const ssize_t count = ::sendmsg(connection.socket.fd(), &message, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    // Reading tells the rest, after all that the peer sent before it went.
    if (count < 0) return connection.out.clear();
    frame.written += static_cast<size_t>(count);
    if (frame.written < sizeof(Header) + frame.payload_size) continue;
    End(frame.message, absl::OkStatus());
    connection.out.pop_front();
  }
}

}  // namespace millrace::collectives
