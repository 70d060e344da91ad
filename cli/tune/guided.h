#ifndef MILLRACE_CLI_TUNE_GUIDED_H_
#define MILLRACE_CLI_TUNE_GUIDED_H_

#include <string>
#include <vector>

#include "cli/tune/candidates.h"
#include "cli/tune/search.h"
#include "cli/tune/setting.h"
#include "pipeline/diagnosis.h"

// The order of the candidates by what limits the pipeline: the diagnosis names the settings to try
// first, and the changes that are not worth their time unless there is plenty. The model may be
// wrong and measured trials decide, so it leaves out nothing.

namespace millrace::cli {

// The settings that move what binds, in the order in which they are tried. A setting of which the
// model predicts a gain below kWorthwhile is not among them, nor longer runs if the executor's own
// work takes less than they would have to save.
std::vector<Setting> SettingsFirst(const pipeline::Diagnosis& diagnosis);

// Sorts candidates beside `now`, of which `diagnosis` is. The first group has the larger values of
// SettingsFirst, then what the model cannot tell (as less of something); the second group has what
// it predicts no gain of. Candidates of the same rank keep their order.
CandidateGroups InGuidedOrder(const std::vector<Candidate>& candidates, const Settings& now,
                              const Defaults& defaults, const pipeline::Diagnosis& diagnosis);

// "bound by worker CPU: threads (about +84 %), run_us first", of settings that may change: all of
// them, or those that a job says for itself.
std::string GuidanceText(const pipeline::Diagnosis& diagnosis, bool job_fields_only = false);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_GUIDED_H_
