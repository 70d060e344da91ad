#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands/command.h"
#include "cli/commands/explain_job.h"
#include "cli/metrics/metrics_server.h"
#include "cli/program.h"
#include "cli/tune/job_target.h"
#include "collectives/factory.h"
#include "trainer/train.h"

int main(int argc, char** argv) {
  millrace::cli::Jobs jobs;
  jobs.facts =
      absl::StrCat("communicators: ", absl::StrJoin(millrace::collectives::BackendNames(), ", "),
                   "\n", "compute: ", absl::StrJoin(millrace::trainer::BackendNames(), ", "), "\n");
  jobs.examples = "  mpirun -np 2 millrace train examples/fashion_mnist/job.pbtxt\n";
  jobs.explainer = millrace::cli::ExplainerOfJobs();
  jobs.open_job = &millrace::cli::OpenTunedJob;
  jobs.serve_metrics = &millrace::cli::ServeMetrics;
  jobs.add = [](millrace::cli::Command& top) {
    millrace::cli::AddBench(top);
    millrace::cli::AddTrain(top);
    millrace::cli::AddEval(top);
    millrace::cli::AddPredict(top);
    millrace::cli::AddModel(top);
    millrace::cli::AddWeights(top);
  };
  return millrace::cli::RunProgram(argc, argv, jobs);
}
