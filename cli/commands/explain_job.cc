#include "cli/commands/explain_job.h"

#include "cli/wait/progress.h"
#include "trainer/explain.h"

namespace millrace::cli {
namespace {

absl::StatusOr<std::string> Explain(const std::string& path,
                                    const std::map<std::string, std::string>& variables,
                                    bool as_dot) {
  Progress indexing("index", "bytes");
  return trainer::ExplainJob({path, variables, as_dot, indexing.Callback()});
}

}  // namespace

JobExplainer ExplainerOfJobs() { return {trainer::IsJobFile, Explain}; }

}  // namespace millrace::cli
