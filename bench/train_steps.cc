// bench_train_steps JOB REPLICAS THREADS STEPS [NAME=VALUE]...: the steps of a training, as
// `millrace train` makes them: the batch, forward, backward, sums over ranks, and the update. The
// job has more steps than STEPS, and neither an evaluation nor checkpoints. THREADS are those of
// each replica; 0: its part of the cores. On GPUs, if the job says so, REPLICAS are the first
// devices. Prints one JSON object with the median and the mean of
// the steps by the clock, and the median by the processor time of the process over the threads.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "trainer/job/job.h"
#include "trainer/job/models.h"
#include "trainer/replicas.h"
#include "trainer/train.h"

namespace millrace::bench {
namespace {

constexpr uint64_t kWarmSteps = 2;  // which are not counted

double Milliseconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

// The ends of the steps of rank 0, from the last warm one on.
class StepClock {
 public:
  void Stamp() {
    wall_.push_back(Milliseconds(CLOCK_MONOTONIC));
    cpu_.push_back(Milliseconds(CLOCK_PROCESS_CPUTIME_ID));
  }
  size_t num_steps() const { return wall_.empty() ? 0 : wall_.size() - 1; }
  double MedianWall() const { return Median(wall_); }
  double MedianCpu() const { return Median(cpu_); }
  double MeanWall() const {
    return (wall_.back() - wall_.front()) / static_cast<double>(num_steps());
  }

 private:
  static double Median(const std::vector<double>& stamps) {
    std::vector<double> steps(stamps.size());
    std::adjacent_difference(stamps.begin(), stamps.end(), steps.begin());
    steps.erase(steps.begin());
    std::ranges::sort(steps);
    return (steps[(steps.size() - 1) / 2] + steps[steps.size() / 2]) / 2;
  }

  std::vector<double> wall_;
  std::vector<double> cpu_;
};

struct Settings {
  trainer::TrainOptions options;
  uint64_t steps = 0;
};

absl::StatusOr<int64_t> CountParameters(const trainer::TrainOptions& options) {
  std::set<std::string> used;
  MILLRACE_ASSIGN_OR_RETURN(const trainer::JobFile job,
                            trainer::LoadJob(options.job_path, options.variables, used));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<trainer::Model> models,
                            trainer::LoadModels(job, options.variables, used));
  int64_t parameters = 0;
  for (const trainer::Model& model : models) parameters += model.num_parameters();
  return parameters;
}

absl::Status Measure(Settings settings) {
  trainer::TrainOptions& options = settings.options;
  StepClock clock;
  std::atomic<bool> stop = false;  // rank 0's steps -> all ranks
  options.stop = &stop;
  options.progress = [&](uint64_t done, uint64_t /*total*/) {
    if (done >= kWarmSteps) clock.Stamp();
    if (done == kWarmSteps + settings.steps) stop = true;
  };
  MILLRACE_ASSIGN_OR_RETURN(const int64_t num_parameters, CountParameters(options));
  const auto process = collectives::MakeSingle();
  MILLRACE_ASSIGN_OR_RETURN(const trainer::TrainOutcome outcome,
                            trainer::TrainReplicas(options, *process));
  if (clock.num_steps() != settings.steps) {
    return absl::FailedPreconditionError(absl::StrFormat("%s has %d steps, but %d are needed",
                                                         options.job_path, outcome.steps,
                                                         kWarmSteps + settings.steps));
  }
  absl::PrintF(
      "{\"step_ms\": %.3f, \"mean_step_ms\": %.3f, \"step_cpu_ms\": %.3f, "
      "\"data_wait\": %.5f, \"parameters\": %d}\n",
      clock.MedianWall(), clock.MeanWall(), clock.MedianCpu() / std::max(1, options.threads),
      outcome.wait_fraction, num_parameters);
  return absl::OkStatus();
}

bool Read(int argc, char** argv, Settings& settings) {
  trainer::TrainOptions& options = settings.options;
  if (argc < 5 || !absl::SimpleAtoi(argv[2], &options.replicas) ||
      !absl::SimpleAtoi(argv[3], &options.threads) || !absl::SimpleAtoi(argv[4], &settings.steps) ||
      options.replicas < 1 || settings.steps < 1) {
    return false;
  }
  options.job_path = argv[1];
  for (int i = 5; i < argc; ++i) {
    const std::pair<std::string, std::string> variable =
        absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    options.variables.insert(variable);
  }
  return true;
}

int Main(int argc, char** argv) {
  Settings settings;
  if (!Read(argc, argv, settings)) {
    std::fprintf(stderr,
                 "usage: bench_train_steps JOB REPLICAS THREADS STEPS [NAME=VALUE]...\n"
                 "with at least one replica and one step\n");
    return 2;
  }
  const absl::Status status = Measure(std::move(settings));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) { return millrace::bench::Main(argc, argv); }
