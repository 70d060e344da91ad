#include <algorithm>
#include <tuple>

#include "collectives/stall_watch_internal.h"

namespace millrace::collectives {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

// The most of a stall that one look may find: nobody is named for one long turn of the looker, in
// which the others may have had as little of the machine.
constexpr int kLooksForAReport = 3;
constexpr milliseconds kLongestTurn{1500};
// Looks come at best as often as the watchdog's turns: less would be everybody's absence.
constexpr milliseconds kLeastTurn{100};

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
      longest_turn_(std::clamp(report / kLooksForAReport, kLeastTurn, kLongestTurn)),
      seen_(num_ranks) {}

void StallWatch::ForgetOwnAbsence(Clock::time_point now) {
  const auto away = looked_ ? now - *looked_ : Clock::duration::zero();
  looked_ = now;
  if (away <= longest_turn_) return;
  for (Seen& seen : seen_) {
    seen.beat += away - longest_turn_;
    seen.moved += away - longest_turn_;
  }
}

void StallWatch::Update(Seen& seen, const Sighting& sighting, Clock::time_point now) const {
  const bool first = !Shown(seen.last);
  if (first || sighting.beat != seen.last.beat) seen.beat = now;
  if (first || !SamePlace(sighting, seen.last)) {
    seen.moved = now;
    seen.reported = seen.given_up = false;
  }
  seen.last = sighting;
}

// The wait of `own` cannot end before `peer` comes on.
bool StallWatch::Awaited(const Sighting& own, const Sighting& peer) const {
  if (!Waits(own) || peer.step > own.step || peer.phase == Phase::kEnded) return false;
  return !(Waits(peer) && peer.step == own.step && peer.bucket == own.bucket);
}

std::vector<StallWatch::Finding> StallWatch::Look(const ProgressBoard& board,
                                                  Clock::time_point now) {
  ForgetOwnAbsence(now);
  std::vector<Finding> findings;
  const Sighting own = board.page(rank_).Read();
  Update(seen_[rank_], own, now);
  const auto waiting = now - seen_[rank_].moved;
  for (int rank = 0; rank < board.num_ranks(); ++rank) {
    const Sighting sighting = board.page(rank).Read();
    if (rank == rank_ || !Shown(sighting) || sighting.presence == Presence::kLeft) continue;
    Seen& seen = seen_[rank];
    Update(seen, sighting, now);
    const auto silent = now - seen.beat;
    // Who is awaited has stood still for as long as both stand where they are.
    const auto stuck =
        Awaited(own, sighting) ? std::min(waiting, now - seen.moved) : Clock::duration::zero();
    const auto longest = std::max(silent, stuck);
    if (longest < report_) {
      seen.reported = false;  // it lives again
      continue;
    }
    // What a rank does outside of steps (it indexes its data, loads a checkpoint) may take minutes.
    const auto counted = own.step < 0 ? silent : longest;
    const bool give_up = abort_.count() > 0 && counted >= abort_ && !seen.given_up;
    if (seen.reported && !give_up) continue;
    seen.reported = true;
    seen.given_up = seen.given_up || give_up;
    findings.push_back({{{rank, sighting.step, sighting.bucket, sighting.phase},
                         duration_cast<milliseconds>(longest),
                         silent >= report_},
                        give_up});
  }
  return findings;
}

}  // namespace millrace::collectives
