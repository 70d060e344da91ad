// Handles the frames that come in.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/tcp/mesh.h"

namespace millrace::collectives {

void TcpMesh::Read(int peer) {
  Connection& connection = connections_[peer];
  std::array<char, 4096> nowhere;
  while (connection.socket.valid()) {
    char* into = reinterpret_cast<char*>(&connection.header) + connection.header_read;
    size_t size = sizeof(Header) - connection.header_read;
    if (size == 0 && connection.target != nullptr) {
      into = reinterpret_cast<char*>(connection.target);
      size = connection.left;
    } else if (size == 0) {
      into = nowhere.data();
      size = std::min(connection.left, nowhere.size());
    }
    const bool in_header = connection.header_read < sizeof(Header);
    const ssize_t count = ::recv(connection.socket.fd(), into, size, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count == 0) return Break(peer, absl::UnavailableError("the connection was closed"));
    if (count < 0) return Break(peer, ErrnoStatus(errno, "receive", "connection"));
    const auto got = static_cast<size_t>(count);
    if (in_header) {
      connection.header_read += got;
      if (connection.header_read == sizeof(Header)) OnHeader(peer);
    } else {
      connection.left -= got;
      if (connection.target != nullptr) connection.target += got;
    }
    if (connection.header_read == sizeof(Header) && connection.left == 0) OnPayload(peer);
    if (connection.arrived_bytes >= kMaxArrived) return;
  }
}

void TcpMesh::OnHeader(int peer) {
  Connection& connection = connections_[peer];
  const Header& header = connection.header;
  connection.left = 0;
  connection.target = nullptr;
  connection.message = 0;
  connection.keeps = false;
  switch (header.kind) {
    case kShort:
      return OnShort(peer);
    case kAnnounced:
      return OnAnnounced(peer);
    case kGrant:
      return OnGrant(peer);
    case kData:
      return OnData(peer);
    case kRefused:
      if (FindAnnounced(peer, header.id) != nullptr) {
        End(header.id, absl::InvalidArgumentError(absl::StrCat(
                           "rank ", peer, " receives another size than rank ", rank_, " sends")));
      }
      return;
    case kGivenUp:
      if (const auto grant = connection.granted.find(header.id);
          grant != connection.granted.end()) {
        End(grant->second,
            absl::UnavailableError(absl::StrCat("rank ", peer, " has given up a message")));
        connection.granted.erase(grant);
      }
      return;
    case kTaken:
      if (header.size > connection.untaken) {
        return Break(peer, absl::DataLossError("it took more than it was sent"));
      }
      connection.untaken -= header.size;
      return;
    default:
      return Break(peer,
                   absl::DataLossError(absl::StrCat("it sent a frame of kind ", header.kind)));
  }
}

TcpMesh::Id TcpMesh::TakePosted(Connection& connection, Key key) {
  const auto posted = connection.posted.find(key);
  if (posted == connection.posted.end()) return 0;
  const Id id = posted->second.front();
  posted->second.pop_front();
  if (posted->second.empty()) connection.posted.erase(posted);
  return id;
}

void TcpMesh::Keep(Connection& connection, Key key, Arrival arrival) {
  const auto [arrived, is_new] = connection.arrived.try_emplace(key);
  connection.arrived_bytes += arrival.bytes() + (is_new ? kKeyBytes : 0);
  arrived->second.push_back(std::move(arrival));
}

TcpMesh::Arrival TcpMesh::TakeArrived(Connection& connection, Arrivals::iterator arrived) {
  Arrival arrival = std::move(arrived->second.front());
  connection.arrived_bytes -= arrival.bytes();
  arrived->second.pop_front();
  if (!arrived->second.empty()) return arrival;
  connection.arrived.erase(arrived);
  connection.arrived_bytes -= kKeyBytes;
  return arrival;
}

void TcpMesh::Took(int peer, size_t size) {
  Connection& connection = connections_[peer];
  connection.taken_untold += sizeof(Header) + size;
  if (connection.taken_untold < kTellTaken || !connection.broken.ok()) return;
  Queue(peer, {kTaken, 0, 0, 0, 0, std::exchange(connection.taken_untold, 0)}, {}, 0);
}

TcpMesh::Message* TcpMesh::FindAnnounced(int peer, Id id) {
  const auto found = messages_.find(id);
  if (found == messages_.end()) return nullptr;
  Message& message = found->second;
  const bool waits = message.sends && message.peer == peer && message.announced &&
                     !message.granted && !message.ended;
  return waits ? &message : nullptr;
}

void TcpMesh::OnShort(int peer) {
  Connection& connection = connections_[peer];
  const Header& header = connection.header;
  if (header.size > kMaxShort) {
    return Break(peer,
                 absl::DataLossError(absl::StrCat("it sent a frame of ", header.size, " bytes")));
  }
  connection.left = header.size;
  if (HasEnded(header.group)) return Took(peer, header.size);  // read, and dropped
  const Id id = TakePosted(connection, KeyOf(header.group, header.tag));
  if (id == 0) {
    connection.keeps = true;
    connection.arrival = {false, header.id, header.size, std::vector<std::byte>(header.size)};
    if (header.size > 0) connection.target = connection.arrival.data.data();
    return;
  }
  Took(peer, header.size);
  const Message& message = messages_[id];
  if (message.size != header.size) return End(id, UnequalSizes(message, header.size));
  connection.message = id;
  connection.target = message.target;
}

void TcpMesh::OnAnnounced(int peer) {
  Connection& connection = connections_[peer];
  const Header& header = connection.header;
  if (HasEnded(header.group)) return;
  const Key key = KeyOf(header.group, header.tag);
  const Id id = TakePosted(connection, key);
  if (id != 0) return Answer(peer, id, header.id, header.size);
  Keep(connection, key, {true, header.id, header.size, {}});
}

void TcpMesh::Answer(int peer, Id message, uint64_t sender_id, uint64_t size) {
  const Message& receive = messages_[message];
  const bool equal = receive.size == size;
  if (equal) connections_[peer].granted[sender_id] = message;
  if (!equal) End(message, UnequalSizes(receive, size));
  Queue(peer, {equal ? kGrant : kRefused, 0, 0, 0, sender_id, 0}, {}, 0);
}

void TcpMesh::OnGrant(int peer) {
  const Header header = connections_[peer].header;
  Message* const message = FindAnnounced(peer, header.id);
  if (message == nullptr) {
    // Its memory would be read once more after it has ended.
    const auto found = messages_.find(header.id);
    if (found != messages_.end() && found->second.granted && found->second.peer == peer) {
      return Break(peer, absl::DataLossError("it asked for a message twice"));
    }
    return Queue(peer, {kGivenUp, 0, 0, 0, header.id, 0}, {}, 0);
  }
  message->granted = true;
  Queue(peer, {kData, 0, 0, 0, header.id, message->size}, {message->source, message->size},
        header.id);
}

void TcpMesh::OnData(int peer) {
  Connection& connection = connections_[peer];
  const Header& header = connection.header;
  connection.left = header.size;
  const auto grant = connection.granted.find(header.id);
  if (grant == connection.granted.end()) return;  // given up here: read, and dropped
  const Message& message = messages_[grant->second];
  connection.message = grant->second;
  connection.granted.erase(grant);
  if (message.size != header.size) {
    return Break(peer, absl::DataLossError(absl::StrCat("it sent ", header.size,
                                                        " bytes instead of ", message.size)));
  }
  connection.target = message.target;
}

// All of a frame is there.
void TcpMesh::OnPayload(int peer) {
  Connection& connection = connections_[peer];
  connection.header_read = 0;
  const Id id = std::exchange(connection.message, 0);
  connection.target = nullptr;
  if (id != 0) return End(id, absl::OkStatus());
  if (!std::exchange(connection.keeps, false)) return;
  // It may have been asked for while it was on its way.
  Arrival arrival = std::exchange(connection.arrival, {});
  if (HasEnded(connection.header.group)) return Took(peer, arrival.size);
  const Key key = KeyOf(connection.header.group, connection.header.tag);
  const Id posted = TakePosted(connection, key);
  if (posted == 0) {
    return Keep(connection, key, std::move(arrival));
  }
  Took(peer, arrival.size);
  const Message& message = messages_[posted];
  if (message.size != arrival.size) return End(posted, UnequalSizes(message, arrival.size));
  if (arrival.size > 0) std::memcpy(message.target, arrival.data.data(), arrival.size);
  End(posted, absl::OkStatus());
}

}  // namespace millrace::collectives
