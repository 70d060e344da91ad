#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/host.h"
#include "base/metrics.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/dump/batch_dump.h"
#include "cli/emulate/accelerator.h"
#include "cli/emulate/emulator.h"
#include "cli/emulate/live_run.h"
#include "cli/emulate/run_max.h"
#include "cli/emulate/run_report.h"
#include "cli/emulate/run_stream.h"
#include "cli/emulate/run_trace.h"
#include "cli/emulate/visit_record.h"
#include "cli/exit.h"
#include "cli/flags/checks.h"
#include "cli/flags/trace.h"
#include "cli/metrics/exporters.h"
#include "cli/wait/progress.h"
#include "pipeline/diagnosis.h"
#include "pipeline/digest.h"
#include "pipeline/pipeline.h"
#include "pipeline/stretch.h"

// `millrace run` runs a pipeline without a trainer. With --pace or --accelerator it emulates
// accelerators that take a nominal time for each batch (cli/emulate/emulator.h), and reports their
// utilisation (cli/emulate/step_sums.h).

namespace millrace::cli {
namespace {

// One pass over the stream, to its end or the flags' limits.
class Drive {
 public:
  static absl::StatusOr<RunReport> Run(const RunFlags& flags, RunStream& stream) {
    MILLRACE_ASSIGN_OR_RETURN(BatchDump dump, BatchDump::Open(flags.dump));
    MILLRACE_ASSIGN_OR_RETURN(VisitRecord record,
                              VisitRecord::Open(flags.audit, flags.token_file, stream.plan,
                                                *stream.pipeline, stream.options));
    MILLRACE_ASSIGN_OR_RETURN(RunTrace trace,
                              RunTrace::Open(flags.trace, flags.rank, *stream.pipeline));
    return Drive(flags, stream, std::move(dump), std::move(record), std::move(trace)).Run();
  }

 private:
  Drive(const RunFlags& flags, RunStream& stream, BatchDump dump, VisitRecord record,
        RunTrace trace)
      : flags_(flags),
        stream_(stream),
        dump_(std::move(dump)),
        record_(std::move(record)),
        trace_(std::move(trace)),
        limit_(flags.seconds > 0 ? flags.seconds : std::numeric_limits<double>::infinity()),
        cpu_at_start_(ProcessCpuSeconds()),
        emulator_(EmulatorClock::Steady(), flags.accelerators, SecondsPerSample(flags)),
        whole_(*stream.pipeline, *stream.context) {}

  static double SecondsPerSample(const RunFlags& flags) {
    const double rate = SamplesPerSecondOf(flags);
    return rate > 0 ? 1 / rate : 0;
  }

  RunReport Run() {
    std::optional<Progress> progress;
    if (!flags_.top) progress.emplace("run", "batches", BatchesToCome());
    if (progress) progress->SetLimit(flags_.seconds);
    bool more = true;
    while (more && WantsMore()) {
      more = Step();
      if (more && progress) progress->Add(1);
    }
    emulator_.Drain(limit_);
    if (more) report_.status = record_.Finish(/*end_of_stream=*/false);
    if (const absl::Status traced = trace_.Finish(); report_.status.ok()) report_.status = traced;
    report_.seconds = emulator_.now();
    report_.cpu_seconds = ProcessCpuSeconds() - cpu_at_start_;
    report_.steps = emulator_.sums();
    report_.digest = digest_.value();
    report_.diagnosis = (behind_first_.has_value() ? *behind_first_ : whole_)
                            .Diagnose(DiagnosisOptionsOf(flags_, stream_));
    report_.damage = DamageOf(stream_.context->metrics());
    report_.fetch = FetchOf(stream_.context->metrics());
    return report_;
  }

  // 0: they are not known.
  int64_t BatchesToCome() const {
    const pipeline::StreamLength length = stream_.pipeline->length();
    const bool is_known = !length.infinite && length.known && stream_.options.resume_token.empty();
    if (!is_known) return static_cast<int64_t>(flags_.batches);
    return static_cast<int64_t>(flags_.batches > 0 ? std::min(length.batches, flags_.batches)
                                                   : length.batches);
  }

  bool WantsMore() {
    if (flags_.batches > 0 && report_.batches >= flags_.batches) return false;
    emulator_.SleepUntilFree(limit_);
    return emulator_.now() < limit_;
  }

  // An accelerator takes a batch. Returns false at the end of the stream or on an error, which
  // report_ then holds.
  bool Step() {
    if (report_.batches == 1) behind_first_.emplace(*stream_.pipeline, *stream_.context);
    emulator_.Ask();
    const auto batch = stream_.pipeline->Next();
    if (!batch.ok()) report_.status = batch.status();
    if (!batch.ok()) return false;
    if (!batch->has_value()) {
      report_.status = record_.Finish(/*end_of_stream=*/true);
      return false;
    }
    emulator_.Deliver((*batch)->num_valid_rows());
    report_.status = Keep(**batch);
    if (!report_.status.ok()) return false;
    if (flags_.digest) digest_.Add(**batch);
    report_.samples += (*batch)->num_valid_rows();
    ++report_.batches;
    return true;
  }

  // The token is stored last: a run that continues from it makes no earlier batch again.
  absl::Status Keep(const pipeline::Batch& batch) {
    MILLRACE_RETURN_IF_ERROR(trace_.Look());
    MILLRACE_RETURN_IF_ERROR(dump_.Add(batch));
    return record_.Add(batch);
  }

  const RunFlags& flags_;
  RunStream& stream_;
  const BatchDump dump_;
  VisitRecord record_;
  RunTrace trace_;
  const double limit_;  // seconds
  const double cpu_at_start_;
  Emulator emulator_;
  const pipeline::Stretch whole_;
  std::optional<pipeline::Stretch> behind_first_;  // before it nothing was made ahead
  pipeline::StreamDigest digest_;
  RunReport report_;
};

// Reports a run that measured nothing; returns the exit code.
int FailAtOnce(const RunFlags& flags, const absl::Status& status) {
  if (flags.json) PrintErrorJson(status);
  return Fail(status);
}

int RunOnce(const RunFlags& flags, RunStream& stream) {
  const auto report = [&] {
    const LiveRun live(flags, stream);
    return Drive::Run(flags, stream);
  }();
  if (!report.ok()) return FailAtOnce(flags, report.status());
  if (flags.json) {
    PrintRunJson(flags, *report);
  } else if (report->batches > 0 || report->status.ok()) {
    PrintRunText(flags, *report);
  }
  return report->status.ok() ? kDone : Fail(report->status);
}

int RunFindMax(const RunFlags& flags, RunStream& stream) {
  const MaxReport report = [&] {
    const LiveRun live(flags, stream);
    return FindMaxOf(flags, stream);
  }();
  if (flags.json) {
    PrintMaxJson(flags, report);
  } else {
    PrintMaxText(flags, report);
  }
  return report.fed.status.ok() ? kDone : Fail(report.fed.status);
}

// The error of flags that contradict each other; empty: none.
std::string_view CheckFlags(const RunFlags& flags) {
  if (flags.resume == "") return "--resume: the token is empty; leave the flag out to begin anew";
  if (flags.force && !flags.resume.has_value() && flags.token_file.empty()) {
    return "--force goes with --resume or --token-file";
  }
  const bool paced = SamplesPerSecondOf(flags) > 0;
  if (flags.accelerators > 1 && !paced) return "--accelerators goes with --accelerator or --pace";
  if (!flags.find_max) return flags.warmup < 0 ? "" : "--warmup goes with --find-max";
  if (!paced) return "--find-max goes with --accelerator or --pace";
  if (flags.accelerators > 1) return "--find-max finds the number of --accelerators";
  if (flags.batches > 0) return "--find-max takes --seconds for each try, not --batches";
  if (!flags.trace.file.empty()) return "--find-max goes without --trace";
  if (flags.digest || !flags.audit.empty() || !flags.dump.empty() || !flags.token_file.empty()) {
    return "--find-max goes with none of --digest, --audit, --dump and --token-file";
  }
  return "";
}

int Run(const RunFlags& flags, MetricsServing serve) {
  if (const absl::Status status = CheckRank(flags.rank, flags.world); !status.ok()) {
    return FailUsage(status);
  }
  if (const std::string_view wrong = CheckFlags(flags); !wrong.empty()) {
    return FailUsage(std::string(wrong));
  }
  const auto variables = ParseVariables(flags.variables);
  if (!variables.ok()) return FailUsage(variables.status());
  const auto metrics = std::make_shared<Metrics>();
  const auto exporters = OpenExporters(flags.exporters, serve, flags.rank, 0, metrics);
  if (absl::IsInvalidArgument(exporters.status())) return FailUsage(exporters.status());
  if (!exporters.ok()) return FailAtOnce(flags, exporters.status());
  auto stream = OpenRunStream(flags, *variables, metrics);
  if (!stream.ok()) return FailAtOnce(flags, stream.status());
  const bool infinite = stream->pipeline->length().infinite;
  if (flags.find_max && !infinite) {
    return FailUsage("--find-max needs a plan that repeats for ever");
  }
  if (flags.find_max) return RunFindMax(flags, *stream);
  if (infinite && flags.batches == 0 && flags.seconds <= 0) {
    return FailUsage("the plan repeats for ever: give --batches or --seconds");
  }
  return RunOnce(flags, *stream);
}

}  // namespace

void AddRun(Command parent, MetricsServing serve) {
  auto flags = std::make_shared<RunFlags>();
  Command command = parent.AddCommand("run", "Run a pipeline without a trainer and measure it");
  command.Add("file", flags->file, "Pipeline file (protobuf text format)").Required();
  command.Add("--var", flags->variables, "NAME=VALUE for ${NAME} in the file; repeatable")
      .OneValueEach();
  command.Add("--batches", flags->batches, "Stop after this many batches (0: no limit)")
      .Whole(0, std::numeric_limits<int64_t>::max());
  command
      .Add("--seconds", flags->seconds,
           "Stop after this many seconds (0: no limit); with --find-max, for each trial (0: 10)")
      .Finite(0, 1e9);
  command
      .Add("--threads", flags->threads, "Pipeline threads (0: as the plan says, else usable cores)")
      .Whole(0, 4096);
  command
      .Add("--memory-budget-mib", flags->memory_budget_mib,
           "Limit on the pipeline's memory (0: as the plan says, else 2048)")
      .Whole(0, kMaxMib);
  command
      .Add("--io-threads", flags->io_threads,
           "Reads at a time (0: as the plan says, else two for each thread, at least 4)")
      .Whole(0, 1024);
  const Flag pace =
      command.Add("--pace", flags->pace, "Emulate an accelerator that takes this many img/s")
          .Finite(1e-3, 1e12);
  command
      .Add("--accelerator", flags->accelerator,
           "Emulate an accelerator of a benchmark (docs/accelerators.md)")
      .OneOf(AcceleratorNames())
      .Excludes(pace);
  command
      .Add("--accelerators", flags->accelerators,
           "Number of emulated accelerators, which share the stream")
      .Whole(1, kMaxAccelerators)
      .ShowDefault();
  command.AddSwitch("--find-max", flags->find_max,
                    "Find how many accelerators this host feeds at a utilisation of 0.90");
  command
      .Add("--warmup", flags->warmup,
           "With --find-max: unmeasured seconds at the start of each trial (2)")
      .Finite(0, 1e6);
  command.Add("--rank", flags->rank, "Read this rank's slice of every batch")
      .Whole(0, kMaxInt)
      .ShowDefault();
  command.Add("--world", flags->world, "Number of ranks").Whole(1, kMaxInt).ShowDefault();
  command.Add("--prefetch", flags->prefetch, "Batches made ahead (0: as the plan says)")
      .Whole(0, 1024);
  const Flag resume = command.Add("--resume", flags->resume, "Continue from this resume token");
  command
      .Add("--token-file", flags->token_file,
           "Continue from the token in this file, if there is one, and store the token of the last "
           "batch there")
      .Excludes(resume);
  command.AddSwitch("--force", flags->force,
                    "Continue even from a token of another plan or other data, and report what is "
                    "lost; a token of another semantics_version is still refused");
  command.Add("--audit", flags->audit,
              "Log the samples of every batch to this file, one for each rank (see audit)");
  command.Add("--dump", flags->dump,
              "Write every batch into this folder as .npy files, with the ids of its rows");
  command.Add("--quarantine", flags->quarantine,
              "Append a line for each damaged record to this file (see records repair)");
  AddTraceFlags(command, flags->trace);
  AddExporterFlags(command, serve != nullptr, flags->exporters);
  command.AddSwitch("--digest", flags->digest,
                    "Digest of all valid rows; the ranks' digests add up");
  command.AddSwitch("--json", flags->json, "One JSON object on standard output");
  command.AddSwitch("--top", flags->top, "Show the figures of `millrace top` while it runs");
  command.Footer(
      "Examples:\n"
      "  millrace run examples/imagenet/train.pbtxt --var DATA=shards --seconds 10 --json\n"
      "  millrace run pipeline.pbtxt --batches 100 --digest --rank 1 --world 2\n"
      "  millrace run pipeline.pbtxt --seconds 30 --pace 1786\n"
      "  millrace run pipeline.pbtxt --accelerator h100-storage --find-max --json\n"
      "  millrace run pipeline.pbtxt --batches 3 --dump batches\n"
      "  millrace run pipeline.pbtxt --token-file run.token --audit run.audit");
  command.Do([flags, serve] { return Run(*flags, serve); });
}

}  // namespace millrace::cli
