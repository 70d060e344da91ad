#ifndef MILLRACE_CLI_TOP_VERDICT_H_
#define MILLRACE_CLI_TOP_VERDICT_H_

#include <string>
#include <vector>

#include "cli/live/snapshot.h"
#include "pipeline/diagnosis.h"

namespace millrace::cli {

// The reason for which the consumer of a program waits, and the changes that would help.
struct Verdict {
  std::string sentence;
  std::vector<pipeline::WhatIf> what_ifs;
};

// The verdict on the lowest rank in a stretch of time (Difference), by pipeline::Diagnose.
Verdict VerdictOf(const Snapshot& difference);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TOP_VERDICT_H_
