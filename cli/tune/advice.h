#ifndef MILLRACE_CLI_TUNE_ADVICE_H_
#define MILLRACE_CLI_TUNE_ADVICE_H_

#include <string>
#include <vector>

#include "pipeline/plan.h"

namespace millrace::cli {

// Returns the options of the plan's stages that would make it faster but change its batches, which
// `millrace tune` only names.
std::vector<std::string> AdviceFor(const pipeline::Plan& plan);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_ADVICE_H_
