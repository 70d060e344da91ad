#include "collectives/watch/stall_watch.h"

#include <algorithm>
#include <tuple>

namespace millrace::collectives {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

// A stall is found by at least so many looks: no rank is named for one long turn of this rank, in
// which the others may have been without the processor too.
constexpr int kLooksForAReport = 3;
constexpr milliseconds kLongestTurn{1500};
// Looks come at most as often as the watchdog's turns: with a shorter limit every turn would count
// as an absence.
constexpr milliseconds kLeastTurn{100};
// The others may wait for a rank that has shown no sign of life for this long, which is too short
// for a report.
constexpr milliseconds kLeastSilence{300};

bool SamePlace(const Sighting& a, const Sighting& b) {
  return std::tie(a.step, a.bucket, a.phase) == std::tie(b.step, b.bucket, b.phase);
}

bool Waits(const Sighting& sighting) {
  return sighting.phase == Phase::kWaiting || sighting.phase == Phase::kExchanging;
}

}  // namespace

StallWatch::StallWatch(int rank, int num_ranks, milliseconds report, milliseconds abort)
    : rank_(rank),
      report_(report),
      abort_(abort),
      least_(abort.count() > 0 ? std::min(report, abort) : report),
      longest_turn_(std::clamp(least_ / kLooksForAReport, kLeastTurn, kLongestTurn)),
      silence_(std::max(least_ / 2, kLeastSilence)),
      seen_(num_ranks) {}

void StallWatch::ForgetOwnAbsence(Clock::duration away) {
  if (away <= longest_turn_) return;
  for (Seen& seen : seen_) {
    seen.beat += away - longest_turn_;
    seen.moved += away - longest_turn_;
    seen.blocked += away - longest_turn_;
  }
}

void StallWatch::Update(Seen& seen, const Sighting& sighting, Clock::time_point now) const {
  const bool first = !Shown(seen.last);
  if (first || sighting.beat != seen.last.beat) seen.beat = now;
  if (first || !SamePlace(sighting, seen.last)) {
    seen.moved = seen.blocked = now;
    seen.reported = seen.given_up = false;
  }
  seen.last = sighting;
}

// True if the wait of `own` cannot end before `peer` makes progress.
bool StallWatch::Awaited(const Sighting& own, const Sighting& peer) const {
  if (!Waits(own) || peer.step > own.step || peer.phase == Phase::kEnded) return false;
  return !(Waits(peer) && peer.step == own.step && peer.bucket == own.bucket);
}

// True if the others may wait for `seen`'s rank: it has yet to come, or its process does not run.
bool StallWatch::HoldsUp(const Sighting& own, const Seen& seen, Clock::time_point now) const {
  if (!Shown(seen.last) || seen.last.presence == Presence::kLeft) return false;
  return now - seen.beat >= silence_ || (Awaited(own, seen.last) && !Waits(seen.last));
}

// While a rank holds up the others, no time counts against those that wait.
void StallWatch::ExcuseWaits(Clock::duration turn, Clock::time_point now) {
  bool held_up = false;
  for (int rank = 0; rank < static_cast<int>(seen_.size()); ++rank) {
    held_up = held_up || (rank != rank_ && HoldsUp(seen_[rank_].last, seen_[rank], now));
  }
  if (!held_up) return;
  for (Seen& seen : seen_) seen.blocked = std::min(now, seen.blocked + turn);
}

// The time for which an awaited rank is stuck: neither it nor this rank has made progress since.
StallWatch::Clock::duration StallWatch::StuckFor(const Seen& own, const Seen& seen,
                                                 Clock::time_point now) const {
  if (!Awaited(own.last, seen.last)) return Clock::duration::zero();
  if (Waits(seen.last)) return now - std::max(own.blocked, seen.blocked);
  return now - std::max(own.moved, seen.moved);
}

// Ranks that have waited for it as long will soon find it too; ranks that wait for none will not.
int StallWatch::SpeakerOn(int stalled, bool silent, Clock::time_point now) const {
  for (int rank = 0; rank < rank_; ++rank) {
    const Seen& peer = seen_[rank];
    const bool runs = rank != stalled && Shown(peer.last) && now - peer.beat < silence_ &&
                      peer.last.presence != Presence::kLeft;
    if (runs && (silent || StuckFor(peer, seen_[stalled], now) >= report_ / 2)) return rank;
  }
  return rank_;
}

std::vector<StallWatch::Finding> StallWatch::Look(const ProgressBoard& board,
                                                  Clock::time_point now) {
  const auto turn = looked_ ? now - *looked_ : Clock::duration::zero();
  looked_ = now;
  ForgetOwnAbsence(turn);
  for (int rank = 0; rank < board.num_ranks(); ++rank) {
    Update(seen_[rank], board.page(rank).Read(), now);
  }
  ExcuseWaits(std::min<Clock::duration>(turn, longest_turn_), now);
  std::vector<Finding> findings;
  for (int rank = 0; rank < board.num_ranks(); ++rank) {
    Seen& seen = seen_[rank];
    const Sighting& sighting = seen.last;
    if (rank == rank_ || !Shown(sighting) || sighting.presence == Presence::kLeft) continue;
    const auto silent = now - seen.beat;
    const auto stuck = StuckFor(seen_[rank_], seen, now);
    const auto longest = std::max(silent, stuck);
    if (longest < least_) {
      seen.reported = false;  // it lives again
      continue;
    }
    // The work of a rank outside of steps (indexing its data, loading a checkpoint) may take
    // minutes.
    const auto counted = seen_[rank_].last.step < 0 ? silent : longest;
    const bool give_up = abort_.count() > 0 && counted >= abort_ && !seen.given_up;
    if (!give_up && (seen.reported || longest < report_)) continue;
    seen.reported = true;
    seen.given_up = seen.given_up || give_up;
    findings.push_back({{{rank, sighting.step, sighting.bucket, sighting.phase},
                         duration_cast<milliseconds>(longest),
                         silent >= least_,
                         SpeakerOn(rank, silent >= least_, now)},
                        give_up});
  }
  return findings;
}

}  // namespace millrace::collectives
