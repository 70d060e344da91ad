#ifndef MILLRACE_COLLECTIVES_WATCH_STALL_WATCH_H_
#define MILLRACE_COLLECTIVES_WATCH_STALL_WATCH_H_

#include <chrono>
#include <optional>
#include <vector>

#include "collectives/watch/progress_board.h"
#include "collectives/watchdog.h"

namespace millrace::collectives {

// Finds the ranks that do not come on, from what one rank sees of the pages over time. Times are
// those of the rank that looks, so clocks need not agree. Thread-compatible.
class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;

  struct Finding {
    Stall stall;
    bool give_up = false;
  };

  // `abort` 0: no rank is given up. Less than `report`: who is given up was not named before.
  StallWatch(int rank, int num_ranks, std::chrono::milliseconds report,
             std::chrono::milliseconds abort);

  // What is new since the last look: each stall once, and once more when it is to be given up.
  // Looks are meant to come several times a second: of what is missing between two of them, this
  // process has not run itself (it was stopped, or the host), and no more than a third of the
  // lesser limit (at least 0.1 s) counts against anybody. The time in which a rank has yet to come,
  // or does not run, does not count against those that wait elsewhere: they may wait for it too.
  std::vector<Finding> Look(const ProgressBoard& board, Clock::time_point now);

 private:
  struct Seen {
    Sighting last;
    Clock::time_point beat;     // when it was last seen to live
    Clock::time_point moved;    // when it was last seen to come on
    Clock::time_point blocked;  // the same, later by the time in which it was held up
    bool reported = false;      // of this stall
    bool given_up = false;
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
  const std::chrono::milliseconds least_;  // what may be a finding
  const std::chrono::milliseconds longest_turn_;
  const std::chrono::milliseconds silence_;
  std::vector<Seen> seen_;
  std::optional<Clock::time_point> looked_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_WATCH_STALL_WATCH_H_
