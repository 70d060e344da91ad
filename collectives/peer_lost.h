#ifndef MILLRACE_COLLECTIVES_PEER_LOST_H_
#define MILLRACE_COLLECTIVES_PEER_LOST_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace millrace::collectives {

// The phase of a step that a rank is in, as its peers and the user see it.
enum class Phase : uint32_t {
  kStart,
  kReading,  // waiting for the next batch
  kBackward,
  kWaiting,
  kReducing,
  kExchanging,
  kUpdating,
  kEnded
};

// "start", "reading", "backward", "waiting", "reducing", "exchanging", "updating" or "ended".
const char* Name(Phase phase);

// The rank that a group has lost, and where in its work it was last seen.
struct PeerLost {
  // A rank of the reducer's or watchdog's communicator; with step -1 its Communicator::RankInJob.
  int rank = 0;
  int64_t step = -1;  // -1: a connection broke, and where the rank was is unknown
  int bucket = -1;    // -1: none
  Phase phase = Phase::kStart;
};

// UNAVAILABLE "rank 3 is lost in bucket 2 of step 17 (reducing): WHY", with `lost` as payload.
absl::Status PeerLostError(const PeerLost& lost, const std::string& why);

// Puts `lost` into a status that is not OK.
void AddPeerLost(absl::Status& status, const PeerLost& lost);

// The payload that PeerLostError or AddPeerLost put into a status, also after Annotate.
std::optional<PeerLost> PeerLostOf(const absl::Status& status);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_PEER_LOST_H_
