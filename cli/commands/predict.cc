#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/flags/inference.h"
#include "cli/wait/display.h"
#include "cli/wait/stop_signals.h"
#include "collectives/launcher.h"
#include "trainer/inference.h"
#include "trainer/report.h"

namespace millrace::cli {
namespace {

struct Flags {
  InferenceFlags inference;
  std::string out;
  uint64_t samples = 0;
  std::optional<uint64_t> seed;
};

absl::Status CheckSamples(const Flags& flags) {
  if (flags.seed && flags.samples == 0) {
    return absl::InvalidArgumentError("--seed goes with --samples");
  }
  const trainer::InferenceOptions& options = flags.inference.options;
  if (flags.samples == 0 || (options.plan_path.empty() && options.quarantine_file.empty())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("--samples are made of noise: they go with no data");
}

// The ranks of a launcher would all write the same file.
absl::Status CheckIsAlone() {
  const auto launcher = collectives::DetectLauncher(collectives::Environment);
  if (!launcher.ok()) return launcher.status();
  if (launcher->size <= 1 && launcher->rank == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "predict runs as one process, but a launcher has started several: ", launcher->source));
}

int Run(const Flags& flags) {
  auto options = InferenceOptionsOf(flags.inference);
  if (!options.ok()) return FailUsage(options.status());
  for (const absl::Status& status : {CheckIsAlone(), CheckSamples(flags)}) {
    if (!status.ok()) return FailUsage(status);
  }
  options->samples = static_cast<int64_t>(flags.samples);
  options->seed = flags.seed.value_or(0);
  options->stop = &CatchStopSignals();
  Display display;
  options->warn = Display::Warning;
  const char* const unit = flags.samples > 0 ? "samples" : "batches";
  options->progress = [&display, unit](int64_t done, int64_t all) {
    display.Show("predict", unit, done, all);
  };
  options->index_progress = [&display](int64_t done, int64_t all) { display.Index(done, all); };
  const auto outcome = trainer::PredictJob(*options, flags.out);
  display.End();
  if (!outcome.ok()) return Fail(outcome.status());
  std::printf("%s\n%s: %lld samples\n", trainer::FormatWeights(outcome->weights).c_str(),
              flags.out.c_str(), static_cast<long long>(outcome->samples));
  return kDone;
}

}  // namespace

void AddPredict(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand("predict", "Write a trained model's outputs for each sample");
  AddInferenceFlags(command, flags->inference);
  command.Add("--out", flags->out, "File to write: .tfrecord, .csv or .jsonl").Required();
  command.Add("--samples", flags->samples, "Of an adversarial job: the number of samples to make")
      .Whole(1, kMaxInt);
  command.Add("--seed", flags->seed, "With --samples: the seed of their noise (default: 0)")
      .Whole(0);
  command.Footer(
      "Examples:\n"
      "  millrace predict examples/fashion_mnist/job.pbtxt --out predictions.csv\n"
      "  millrace predict job.pbtxt --checkpoint checkpoints --plan new.pbtxt --out new.tfrecord\n"
      "  millrace predict examples/cosmogan/job.pbtxt --samples 64 --out made.tfrecord");
  command.Do([flags] { return Run(*flags); });
}

}  // namespace millrace::cli
