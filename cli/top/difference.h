#ifndef MILLRACE_CLI_TOP_DIFFERENCE_H_
#define MILLRACE_CLI_TOP_DIFFERENCE_H_

#include "cli/live/snapshot.h"

namespace millrace::cli {

// The figures of the time between two snapshots of one program: counts and times are those between
// them, the rest is of `later`. A rank that `earlier` has not, or that has begun anew since, counts
// from its beginning. A null `earlier` is the program's beginning.
Snapshot Difference(const Snapshot* earlier, const Snapshot& later);

// The seconds that a rank's figures are about.
double SecondsOf(const RankSnapshot& rank);
// The share of the time in which a rank's consumer waited.
double WaitShareOf(const RankSnapshot& rank);
// Samples per second of all ranks of a training, or of a run.
double RateOf(const Snapshot& difference);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TOP_DIFFERENCE_H_
