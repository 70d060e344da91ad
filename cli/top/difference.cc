#include "cli/top/difference.h"

#include <algorithm>

namespace millrace::cli {
namespace {

// The same rank of `earlier`, if it has gone on since; else null.
const RankSnapshot* FindEarlier(const Snapshot* earlier, const RankSnapshot& rank) {
  if (earlier == nullptr) return nullptr;
  const auto found = std::ranges::find(earlier->ranks, rank.rank, &RankSnapshot::rank);
  if (found == earlier->ranks.end()) return nullptr;
  const bool goes_on = found->profile.elapsed_ns <= rank.profile.elapsed_ns &&
                       found->profile.rows <= rank.profile.rows;
  return goes_on ? &*found : nullptr;
}

void Subtract(const StepFigures& earlier, StepFigures& figures) {
  if (earlier.steps > figures.steps) return;
  figures.steps -= earlier.steps;
  figures.samples -= earlier.samples;
  figures.step_seconds -= earlier.step_seconds;
  figures.wait_seconds -= earlier.wait_seconds;
}

}  // namespace

Snapshot Difference(const Snapshot* earlier, const Snapshot& later) {
  Snapshot difference = later;
  for (RankSnapshot& rank : difference.ranks) {
    const RankSnapshot* const before = FindEarlier(earlier, rank);
    if (before == nullptr) continue;
    rank.host = UseBetween(before->host, rank.host);
    rank.fetched_bytes -= before->fetched_bytes;
    rank.profile = pipeline::Between(before->profile, rank.profile);
    if (before->steps && rank.steps) Subtract(*before->steps, *rank.steps);
  }
  return difference;
}

double SecondsOf(const RankSnapshot& rank) {
  return static_cast<double>(rank.profile.elapsed_ns) * 1e-9;
}

double WaitShareOf(const RankSnapshot& rank) {
  if (rank.profile.elapsed_ns <= 0) return 0;
  return static_cast<double>(rank.profile.wait_total_ns()) /
         static_cast<double>(rank.profile.elapsed_ns);
}

double RateOf(const Snapshot& difference) {
  double rate = 0;
  for (const RankSnapshot& rank : difference.ranks) {
    const double seconds = SecondsOf(rank);
    if (seconds <= 0) continue;
    // A rank of a training knows the samples of all ranks.
    if (rank.steps) return static_cast<double>(rank.steps->samples) / seconds;
    rate += static_cast<double>(rank.profile.rows) / seconds;
  }
  return rate;
}

}  // namespace millrace::cli
