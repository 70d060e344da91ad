#ifndef MILLRACE_COLLECTIVES_PROGRESS_H_
#define MILLRACE_COLLECTIVES_PROGRESS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "collectives/peer_lost.h"

namespace millrace::collectives {

// Where a rank says what it does and learns whether its peers still live. The reducer writes; a
// watchdog stands behind it, or nothing.
class Progress {
 public:
  virtual ~Progress() = default;
  // Cheap enough for every bucket. `bucket` is -1 outside of one.
  virtual void Enter(int64_t step, int bucket, Phase phase) = 0;

  // What a timeline wants besides; watchdogs do not.
  // All gradients of this rank in the bucket are there.
  virtual void BucketReady(int64_t /*step*/, int /*bucket*/) {}
  // Between Enter(kWaiting) or Enter(kExchanging) and the next Enter: `rank` of the reducer's
  // communicator is awaited now. Not said over NCCL.
  virtual void Awaits(int64_t /*step*/, int /*bucket*/, int /*rank*/) {}
  // All gradients are there: from now on the step waits for sums.
  virtual void Finishing(int64_t /*step*/) {}

  // OK, or why no peer need be waited for any longer (UNAVAILABLE with PeerLost). Every wait of the
  // caller's asks at least each 50 ms, and each full bucket once, but over NCCL. Thread-safe.
  virtual absl::Status Health() const = 0;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_PROGRESS_H_
