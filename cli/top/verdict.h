#ifndef MILLRACE_CLI_TOP_VERDICT_H_
#define MILLRACE_CLI_TOP_VERDICT_H_

#include <string>

#include "cli/live/snapshot.h"

namespace millrace::cli {

// One sentence about the figures of a stretch of time (Difference): what the consumer of the lowest
// rank waits for, and the change that would help most (pipeline::Diagnose).
std::string VerdictOf(const Snapshot& difference);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TOP_VERDICT_H_
