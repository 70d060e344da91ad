#ifndef MILLRACE_COLLECTIVES_WATCH_STALL_WATCH_H_
#define MILLRACE_COLLECTIVES_WATCH_STALL_WATCH_H_

#include <chrono>
#include <optional>
#include <vector>

#include "collectives/watch/progress_board.h"
#include "collectives/watchdog.h"

namespace millrace::collectives {

// Finds the ranks that make no progress, from the pages as one rank sees them over time. Times are
// those of the rank that looks, so clocks need not agree. Thread-compatible.
class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;

  struct Finding {
    Stall stall;
    bool give_up = false;  // true if the limit to give up was reached
  };

  // `abort` 0: no rank is given up. If it is less than `report`, a rank is given up without being
  // reported before.
  StallWatch(int rank, int num_ranks, std::chrono::milliseconds report,
             std::chrono::milliseconds abort);

  // The findings since the last look: each stall once, and once more when its rank is to be given
  // up. Looks should come several times a second. If they do not, this process or its host was
  // stopped, and no more than a third of the lesser limit (at least 0.1 s) counts against any rank.
  // The time in which a rank has yet to come, or does not run, does not count against those that
  // wait elsewhere: they may wait for it too.
  std::vector<Finding> Look(const ProgressBoard& board, Clock::time_point now);

 private:
  struct Seen {
    Sighting last;
    Clock::time_point beat;     // its last sign of life
    Clock::time_point moved;    // its last progress
    Clock::time_point blocked;  // the same, later by the time in which it was held up
    bool reported = false;      // true if this stall was reported
    bool given_up = false;      // true if such a finding was made of this stall
  };

  // A rank whose page is still empty has not made a watchdog yet: it is not looked at.
  static bool Shown(const Sighting& sighting) { return sighting.beat > 0; }
  void ForgetOwnAbsence(Clock::duration away);
  void Update(Seen& seen, const Sighting& sighting, Clock::time_point now) const;
  bool Awaited(const Sighting& own, const Sighting& peer) const;
  bool HoldsUp(const Sighting& own, const Seen& seen, Clock::time_point now) const;
  void ExcuseWaits(Clock::duration turn, Clock::time_point now);
  Clock::duration StuckFor(const Seen& own, const Seen& seen, Clock::time_point now) const;
  int SpeakerOn(int stalled, bool silent, Clock::time_point now) const;

  const int rank_;
  const std::chrono::milliseconds report_;
  const std::chrono::milliseconds abort_;
  const std::chrono::milliseconds least_;  // the lesser limit that is not 0
  const std::chrono::milliseconds longest_turn_;
  const std::chrono::milliseconds silence_;
  std::vector<Seen> seen_;
  std::optional<Clock::time_point> looked_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_WATCH_STALL_WATCH_H_
