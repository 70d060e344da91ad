#ifndef MILLRACE_CLI_PROGRAM_H_
#define MILLRACE_CLI_PROGRAM_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/metrics.h"

namespace millrace::cli {

class Command;   // cli/flags/command_line.h
class TunedJob;  // cli/tune/target.h

// The explanation of jobs and models by `explain`, for programs that train.
struct JobExplainer {
  // True for a job or a model. Null: all files are plans.
  bool (*is_job)(const std::string& path) = nullptr;
  absl::StatusOr<std::string> (*explain)(const std::string& path,
                                         const std::map<std::string, std::string>& variables,
                                         bool as_dot) = nullptr;
};

// Opens the training of the job in a file, for `tune`.
using JobOpener = absl::StatusOr<std::unique_ptr<TunedJob>> (*)(
    const std::string& path, const std::map<std::string, std::string>& variables);

// Starts a server for a registry at "[HOST:]PORT", `rank` ports behind that one, and tells the user
// where it is. The server stands as long as what is returned.
using MetricsServing = absl::StatusOr<std::shared_ptr<void>> (*)(const std::string& address,
                                                                 int rank,
                                                                 std::shared_ptr<Metrics> metrics);

// A program's additions to the commands on data, which every program has.
struct Jobs {
  std::string facts;     // lines of --version, each with its line end
  std::string examples;  // lines of --help, each with its line end
  JobExplainer explainer;
  JobOpener open_job = nullptr;            // null: jobs cannot be tuned
  MetricsServing serve_metrics = nullptr;  // the server of `run --metrics`; null: there is none
  void (*add)(Command& top) = nullptr;  // adds the commands that start jobs; null: there are none
};

// Runs the command line and returns its exit code. Called once in a process, before it has threads.
int RunProgram(int argc, char** argv, const Jobs& jobs = {});

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_PROGRAM_H_
