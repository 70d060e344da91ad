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

// A rank that makes no progress but is not given up yet.
struct Stall {
  PeerLost where;  // the rank and what it was last seen doing
  std::chrono::milliseconds since{0};
  bool silent = false;  // true if its process does not run at all (SIGSTOP, a host that hangs)
  int speaker = 0;      // the lowest rank that finds this too: it tells the user

  // "rank 3 has not come on for 3.2 s: backward, step 17, bucket 2 (its process does not run)".
  std::string ToString() const;
};

struct WatchdogOptions {
  // A rank is reported when others have waited for it, or have seen no sign of life, for this long.
  std::chrono::milliseconds stall_report{3000};
  // Such a rank is given up after this long; 0: never. A rank that runs is not given up by one that
  // waits for it outside of a step.
  std::chrono::milliseconds stall_abort{60'000};
  // Called once for each stall, on the watchdog's thread. May be empty.
  std::function<void(const Stall&)> on_stall;
  // The address at which the other hosts' watchdogs reach rank 0's host; empty: they try all of its
  // addresses but the loopback, in the order of its interfaces.
  std::string address;
};

// Watches over the ranks of a job from a thread of its own in every rank. Each rank shows the
// others what it is doing on a page (in memory that a host's ranks share, and over TCP between
// hosts), and checks that their processes live. A process that ended is given up at once; a process
// that is stopped or stuck, after `stall_abort`. Then Health() of every rank reports it, and every
// wait ends.
class Watchdog : public Progress {
 public:
  // Collective over the whole job. Ranks of one process (threads) watch each other by their pages
  // alone.
  //   RESOURCE_EXHAUSTED  no shared memory, no thread
  //   UNAVAILABLE         the hosts' watchdogs cannot reach each other
  static absl::StatusOr<std::unique_ptr<Watchdog>> Make(Communicator& communicator,
                                                        const WatchdogOptions& options = {});

  // Chooses the one rank that acts for all after a loss; every rank that knows of the loss calls
  // it. Returns the rank that acts already, or the lowest of those that call within 0.8 s of this
  // one. A rank that is stuck or has failed itself does not call and is not waited for. Ranks may
  // disagree if more of them die meanwhile. Ranks of different hosts may also disagree if the lost
  // rank is rank 0 or the lowest of its host: hosts hear of each other through these ranks, and
  // each part that is cut off then chooses a rank of its own.
  virtual int Elect() = 0;

  // Shows from now on that this rank has left, as the destructor does. The destructor also takes
  // time to tell the other hosts.
  virtual void Leave() = 0;

  // Waits until `rank` has left, or shows no sign of life any more, or `limit` has passed.
  virtual void AwaitLeave(int rank, std::chrono::milliseconds limit) = 0;

  // The last known step, bucket and phase of a rank of the job.
  virtual PeerLost LastSeen(int rank) const = 0;

  // The lowest rank that has left in another phase than kEnded, and where it was last seen.
  // Health() does not report it; a rank that still waits for others may treat it as lost.
  virtual std::optional<PeerLost> Left() const = 0;

  // A rank whose watchdog is destroyed has left in peace.
  ~Watchdog() override = default;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_WATCHDOG_H_
