#ifndef MILLRACE_CLI_TOP_VERDICT_H_
#define MILLRACE_CLI_TOP_VERDICT_H_

#include <string>

#include "cli/live/snapshot.h"

namespace millrace::cli {

// One sentence about the figures of a stretch of time (Difference): whether the input holds up the
// consumer, in the words and with the limits of xprof's input pipeline analysis.
std::string VerdictOf(const Snapshot& difference);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TOP_VERDICT_H_
