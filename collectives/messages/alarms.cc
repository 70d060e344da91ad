#include "collectives/messages/alarms.h"

#include <algorithm>
#include <string>

namespace millrace::collectives {

Alarms::Alarms(Transport& transport) : transport_(transport), peers_(transport.size() - 1) {
  for (size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    peer.rank = (transport.rank() + 1 + static_cast<int>(i)) % transport.size();
    const auto memory = std::as_writable_bytes(std::span(&peer.message, 1));
    const absl::StatusOr<Transport::Id> id = transport_.Receive(memory, peer.rank, kTag);
    if (id.ok()) peer.id = *id;  // a peer that is gone already is met by the first operation
  }
}

void Alarms::Raise(const absl::Status& status, int64_t first_missed) {
  if (raised_) return;
  raised_ = true;
  Message own;
  own.code = static_cast<int32_t>(status.code());
  own.rank = transport_.rank();
  own.first_missed = first_missed;
  if (const std::optional<PeerLost> lost = PeerLostOf(status); lost.has_value()) {
    own.lost_rank = lost->rank;
    own.lost_bucket = lost->bucket;
    own.lost_step = lost->step;
    own.lost_phase = static_cast<uint32_t>(lost->phase);
  }
  const size_t length = std::min(status.message().size(), own.text.size() - 1);
  std::copy_n(status.message().begin(), length, own.text.begin());
  for (const Peer& peer : peers_) {
    // A peer that cannot be told is gone, or learns it from its own messages.
    transport_.Post(std::as_bytes(std::span(&own, 1)), peer.rank, kTag).IgnoreError();
  }
}

absl::Status Alarms::StatusOf(const Peer& peer) {
  const Message& message = peer.message;
  const auto end = std::find(message.text.begin(), message.text.end(), '\0');
  const std::string text(message.text.begin(), end);
  switch (static_cast<absl::StatusCode>(message.code)) {
    case absl::StatusCode::kCancelled:
      return absl::CancelledError(text);
    case absl::StatusCode::kDeadlineExceeded:
      return absl::DeadlineExceededError(text);
    default:
      break;
  }
  absl::Status status = absl::UnavailableError(text);
  if (message.lost_rank >= 0 && message.lost_phase <= static_cast<uint32_t>(Phase::kEnded)) {
    AddPeerLost(status, {message.lost_rank, message.lost_step, message.lost_bucket,
                         static_cast<Phase>(message.lost_phase)});
  }
  return status;
}

std::optional<Alarm> Alarms::Listen() {
  if (peers_.empty()) return std::nullopt;
  Peer& peer = peers_[next_];
  next_ = (next_ + 1) % peers_.size();
  if (peer.id == 0) return std::nullopt;
  const absl::StatusOr<bool> ended = transport_.Test(peer.id);
  if (ended.ok() && !*ended) return std::nullopt;
  peer.id = 0;
  // A peer that has left may be done with the group: only a rank that waits for it has an error.
  if (!ended.ok()) return std::nullopt;
  peer.heard = true;
  return Alarm{StatusOf(peer), peer.rank, peer.message.first_missed};
}

std::vector<int> Alarms::Silent() const {
  std::vector<int> ranks;
  for (const Peer& peer : peers_) {
    if (!peer.heard) ranks.push_back(peer.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace millrace::collectives
