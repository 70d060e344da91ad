#include "cli/commands/explain_job.h"

#include "cli/wait/progress.h"
#include "trainer/explain.h"

namespace millrace::cli {
namespace {

absl::StatusOr<std::string> Explain(const std::string& path,
                                    const std::map<std::string, std::string>& variables,
                                    bool as_dot) {
  Progress indexing("index", "bytes");
  const trainer::ExplainOptions options = {path, variables, as_dot, indexing.Callback()};
  return trainer::IsModelFile(path) ? trainer::ExplainModel(options) : trainer::ExplainJob(options);
}

bool IsJobOrModel(const std::string& path) {
  return trainer::IsJobFile(path) || trainer::IsModelFile(path);
}

}  // namespace

JobExplainer ExplainerOfJobs() { return {IsJobOrModel, Explain}; }

}  // namespace millrace::cli
