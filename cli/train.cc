#include "trainer/train.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "collectives/factory.h"

namespace millrace::cli {
namespace {

struct Flags {
  std::string job;
  std::vector<std::string> variables;
  bool resume = false;
  int threads = 0;
  std::string quarantine;
};

// Signal handler -> training loop, relaxed: the flag alone is the message.
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// The first signal asks for a checkpoint; the next one of its kind ends the process at once.
void OnStopSignal(int signal_number) {
  stop_requested.store(true, std::memory_order_relaxed);
  std::signal(signal_number, SIG_DFL);
}

// Lines on standard output; below them, on a terminal, a bar.
class Display {
 public:
  void Line(std::string_view line) {
    index_.reset();
    if (bar_) bar_->Clear();
    std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
    std::fflush(stdout);
  }
  void Failure(const absl::Status& status) {
    index_.reset();
    bar_.reset();
    Fail(status);
  }
  void Index(int64_t done, int64_t total) {
    if (!index_) index_.emplace("index", "bytes", total);
    index_->Update(done);
  }
  void Step(uint64_t done, uint64_t total) {
    if (!terminal_) return;
    if (!bar_) bar_.emplace("train", "steps", static_cast<int64_t>(total));
    bar_->Update(static_cast<int64_t>(done));
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  std::optional<Progress> index_;
  std::optional<Progress> bar_;
};

int TrainJob(const Flags& flags) {
  auto variables = ParseVariables(flags.variables);
  if (!variables.ok()) return FailUsage(variables.status());
  absl::StatusOr<collectives::Launch> launch = collectives::Connect();
  if (!launch.ok()) return Fail(launch.status());
  std::signal(SIGTERM, OnStopSignal);
  std::signal(SIGUSR1, OnStopSignal);
  trainer::TrainOptions options;
  options.job_path = flags.job;
  options.variables = *std::move(variables);
  options.resume = flags.resume;
  options.threads = flags.threads;
  options.quarantine_file = flags.quarantine;
  options.launch_reason = launch->reason;
  options.stop = &stop_requested;
  Display display;
  options.print = [&display](std::string_view line) { display.Line(line); };
  options.progress = [&display](uint64_t done, uint64_t total) { display.Step(done, total); };
  options.index_progress = [&display](int64_t done, int64_t total) { display.Index(done, total); };
  options.report = [&display](const absl::Status& status) { display.Failure(status); };
  const auto outcome = trainer::Train(options, *launch->communicator);
  if (!outcome.ok()) return kFailed;  // some rank has reported it
  if (!outcome->stopped) return kDone;
  if (!outcome->checkpoint.empty()) return kStoppedResumable;
  if (launch->communicator->rank() != 0) return kFailed;
  return Fail(absl::CancelledError("stopped by a signal; the job names no checkpoint folder"));
}

}  // namespace

void AddTrain(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand("train", "Train a model, data-parallel over all ranks");
  command.Add("job", flags->job, "Job file (protobuf text format)").Required();
  command.Add("--var", flags->variables, "NAME=VALUE for ${NAME} in the job's files; repeatable")
      .OneValueEach();
  command.AddSwitch("--resume", flags->resume, "Continue from the job's newest checkpoint");
  command
      .Add("--threads", flags->threads, "Cores of this rank (0: usable cores / ranks of this host)")
      .Whole(0, 4096);
  command.Add("--quarantine", flags->quarantine,
              "Append the damaged records that any rank meets to this file (see records repair)");
  command.Footer(
      "SIGTERM or SIGUSR1: all ranks save a checkpoint on the same step, then exit with 75.\n"
      "mpirun itself kills its ranks on SIGTERM; send it SIGUSR1 instead, as scripts/mpirun.sh "
      "does\n"
      "with the SIGTERM that it gets.\n"
      "Examples:\n"
      "  millrace train examples/fashion_mnist/job.pbtxt\n"
      "  mpirun -np 2 millrace train examples/fashion_mnist/job.pbtxt --resume");
  command.Do([flags] { return TrainJob(*flags); });
}

}  // namespace millrace::cli
