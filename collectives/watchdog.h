#ifndef MILLRACE_COLLECTIVES_WATCHDOG_H_
#define MILLRACE_COLLECTIVES_WATCHDOG_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/peer_lost.h"
#include "collectives/progress.h"

namespace millrace::collectives {

// A rank that does not come on, but is not given up yet.
struct Stall {
  PeerLost where;  // the rank and what it was last seen doing
  std::chrono::milliseconds since{0};
  bool silent = false;  // its process does not run at all (SIGSTOP, a host that hangs)
  int speaker = 0;      // the lowest rank that finds this too, for one to tell the user

  // "rank 3 has not come on for 3.2 s: backward, step 17, bucket 2 (its process does not run)".
  std::string ToString() const;
};

struct WatchdogOptions {
  // A rank that others wait for so long, or that gives no sign of life so long, is named.
  std::chrono::milliseconds stall_report{3000};
  // ... and given up after so long; 0: never. One that runs is not, where who waits for it is in no
  // step.
  std::chrono::milliseconds stall_abort{60'000};
  // Gets each stall once for as long as it lasts, on the watchdog's thread. May be empty.
  std::function<void(const Stall&)> on_stall;
  // The address at which rank 0's host is reached by the other hosts' watchdogs; empty: they try
  // all that it has but the loopback, in the order of its interfaces.
  std::string address;
};

// Watches over the ranks of a job, from a thread of its own in every rank: each tells the others by
// a page what it is doing (in memory that a host's ranks share, and over TCP between hosts), each
// looks whether the others' processes live. A process that ended is given up at once, one that is
// stopped or stuck after `stall_abort`. Then Health() of every rank says so, and every wait ends.
class Watchdog : public Progress {
 public:
  // Collective over the whole job. Ranks of one process (threads) watch each other by their pages
  // alone.
  //   RESOURCE_EXHAUSTED  no shared memory, no thread
  //   UNAVAILABLE         the hosts' watchdogs cannot reach each other
  static absl::StatusOr<std::unique_ptr<Watchdog>> Make(Communicator& communicator,
                                                        const WatchdogOptions& options = {});

  // The one rank that acts for all after a loss, which every rank calls this for that knows of it:
  // the lowest that does so within 0.8 s of this one, or the one that acts already. A rank that is
  // stuck, or has failed itself, does not call, so it is not waited for. Ranks may disagree where
  // more of them die meanwhile. So may those of unlike hosts where the lost one is rank 0 or the
  // lowest of its host: by these hosts hear of each other, and each part that is cut off has one of
  // its own.
  virtual int Elect() = 0;

  // Shows from now on that this rank has left, as the destructor does, which tells other hosts more
  // patiently.
  virtual void Leave() = 0;

  // Waits until `rank` has left, or does not show that it lives any more, or `limit` has passed.
  virtual void AwaitLeave(int rank, std::chrono::milliseconds limit) = 0;

  // What a rank of the job was last seen doing.
  virtual PeerLost LastSeen(int rank) const = 0;

  // The lowest rank that has left in another phase than kEnded, and what it was last seen doing;
  // Health() is silent about it. A rank that still waits for others may take it for lost.
  virtual std::optional<PeerLost> Left() const = 0;

  // A rank whose watchdog is destroyed has left in peace.
  ~Watchdog() override = default;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_WATCHDOG_H_
