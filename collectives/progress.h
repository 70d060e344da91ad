#ifndef MILLRACE_COLLECTIVES_PROGRESS_H_
#define MILLRACE_COLLECTIVES_PROGRESS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "collectives/peer_lost.h"

namespace millrace::collectives {

// Through this interface a rank says what it is doing and learns whether its peers are still alive.
// A reducer calls it; a watchdog or a timeline implements it.
class Progress {
 public:
  virtual ~Progress() = default;
  // This rank is now in `phase`. Cheap enough for every bucket; `bucket` is -1 outside of one.
  virtual void Enter(int64_t step, int bucket, Phase phase) = 0;

  // The next three are for timelines; watchdogs ignore them.
  // All gradients of this rank in the bucket are there.
  virtual void BucketReady(int64_t /*step*/, int /*bucket*/) {}
  // Between Enter(kWaiting) or Enter(kExchanging) and the next Enter: `rank` of the reducer's
  // communicator is awaited now. Not said over NCCL.
  virtual void Awaits(int64_t /*step*/, int /*bucket*/, int /*rank*/) {}
  // All gradients are there: from now on the step waits for sums.
  virtual void Finishing(int64_t /*step*/) {}

  // OK, or the reason why waiting for peers is pointless (UNAVAILABLE with PeerLost). A reducer
  // calls it at least every 50 ms while it waits, and once for each full bucket (not over NCCL).
  // Thread-safe.
  virtual absl::Status Health() const = 0;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_PROGRESS_H_
