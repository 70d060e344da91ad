#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/host.h"
#include "base/status.h"
#include "cli/command.h"
#include "cli/human_bytes.h"
#include "cli/progress.h"
#include "cli/step_sums.h"
#include "cli/visit_record.h"
#include "pipeline/digest.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"

// `millrace run` drives a pipeline with no trainer behind it. With --pace it stands in for an
// accelerator that takes a nominal time for each batch, and reports its utilisation
// (cli/step_sums.h).

namespace millrace::cli {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

struct Flags {
  std::string file;
  std::vector<std::string> variables;
  uint64_t batches = 0;
  double seconds = 0;
  int threads = 0;
  double pace = 0;
  int rank = 0;
  int world = 1;
  int prefetch = 0;
  bool digest = false;
  bool json = false;
  std::string resume;
  std::string token_file;
  bool force = false;
  std::string audit;
  std::string quarantine;
};

struct Report {
  int64_t samples = 0;
  uint64_t batches = 0;
  double seconds = 0;
  StepSums steps;
  uint64_t digest = 0;
  int64_t records_bad = 0;
  std::map<std::string, int64_t> damaged;  // samples that a policy took out, by reason
  bool needs_limit = false;  // an endless plan and no flag that ends it: nothing was run
  absl::Status status;
};

bool WantsMore(const Flags& flags, const Report& report, Clock::time_point start) {
  if (flags.batches > 0 && report.batches >= flags.batches) return false;
  return flags.seconds <= 0 || Seconds(Clock::now() - start) < flags.seconds;
}

// How long the emulated accelerator works on a batch that came after `elapsed` seconds.
double ComputeSeconds(const Flags& flags, int64_t rows, double elapsed) {
  constexpr double kLongest = 1e9;  // what the clock can count
  if (flags.pace <= 0) return 0;
  const double left = flags.seconds > 0 ? std::max(0.0, flags.seconds - elapsed) : kLongest;
  return std::min(static_cast<double>(rows) / flags.pace, left);
}

// One step: waits for a batch, then keeps the emulated accelerator busy until its nominal time is
// over. Returns false at the end of the stream or on an error, which `report` then holds.
bool Step(const Flags& flags, Clock::time_point start, pipeline::Pipeline& stream,
          pipeline::StreamDigest& digest, VisitRecord& record, Report& report) {
  const auto begin = Clock::now();
  const auto batch = stream.Next();
  const auto arrived = Clock::now();
  if (!batch.ok()) report.status = batch.status();
  if (!batch.ok()) return false;
  if (!batch->has_value()) {
    report.status = record.Finish(/*end_of_stream=*/true);
    return false;
  }
  report.status = record.Add(**batch);
  if (!report.status.ok()) return false;
  const double nominal =
      ComputeSeconds(flags, (*batch)->num_valid_rows(), Seconds(arrived - start));
  if (flags.digest) digest.Add(**batch);
  report.samples += (*batch)->num_valid_rows();
  std::this_thread::sleep_until(arrived + std::chrono::duration_cast<Clock::duration>(
                                              std::chrono::duration<double>(nominal)));
  ++report.batches;
  report.steps.Add({.wait = Seconds(arrived - begin),
                    .nominal = nominal,
                    .whole = Seconds(Clock::now() - begin)});
  return true;
}

void PrintWarning(LogLevel level, std::string_view message) {
  if (level == LogLevel::kInfo) return;
  absl::FPrintF(stderr, "millrace: warning: %s\n", message);
}

// The counts of millrace_records_damaged_total{reason="data_crc"}, by reason.
std::map<std::string, int64_t> DamageByReason(const Metrics& metrics) {
  constexpr std::string_view kBegin = "millrace_records_damaged_total{reason=\"";
  constexpr std::string_view kEnd = "\"}";
  std::map<std::string, int64_t> damaged;
  for (const auto& [name, count] : metrics.Snapshot()) {
    if (!name.starts_with(kBegin)) continue;
    damaged[name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size())] = count;
  }
  return damaged;
}

absl::StatusOr<Report> RunFile(const Flags& flags,
                               const std::map<std::string, std::string>& variables) {
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::Plan plan,
                            pipeline::Plan::FromFile(flags.file, variables));
  ContextOptions context_options;
  context_options.threads = flags.threads;
  context_options.log = PrintWarning;
  MILLRACE_ASSIGN_OR_RETURN(auto context, pipeline::MakeContext(std::move(context_options)));
  pipeline::OpenOptions open_options;
  open_options.rank = flags.rank;
  open_options.world = flags.world;
  open_options.prefetch_batches = flags.prefetch;
  open_options.resume_token = flags.resume;
  open_options.force_resume = flags.force;
  open_options.quarantine_file = flags.quarantine;
  if (!flags.token_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(open_options.resume_token, ReadTokenFile(flags.token_file));
  }
  std::optional<Progress> indexing(std::in_place, "index", "bytes");
  open_options.index_progress = indexing->Callback();
  MILLRACE_ASSIGN_OR_RETURN(auto stream, pipeline::Pipeline::Open(plan, context, open_options));
  indexing.reset();

  Report report;
  report.needs_limit = stream->length().infinite && flags.batches == 0 && flags.seconds <= 0;
  if (report.needs_limit) return report;
  MILLRACE_ASSIGN_OR_RETURN(VisitRecord record, VisitRecord::Open(flags.audit, flags.token_file,
                                                                  plan, *stream, open_options));
  pipeline::StreamDigest digest;
  Progress progress("run", "batches", static_cast<int64_t>(flags.batches));
  const auto start = Clock::now();
  bool more = true;
  while (more && WantsMore(flags, report, start)) {
    more = Step(flags, start, *stream, digest, record, report);
    if (more) progress.Add(1);
  }
  if (more) report.status = record.Finish(/*end_of_stream=*/false);
  report.seconds = Seconds(Clock::now() - start);
  report.digest = digest.value();
  report.records_bad = context->metrics().counter("millrace_records_bad_total").value();
  report.damaged = DamageByReason(context->metrics());
  return report;
}

double SamplesPerSecond(const Report& report) {
  return report.seconds > 0 ? static_cast<double>(report.samples) / report.seconds : 0;
}

void PrintJson(const Flags& flags, const Report& report) {
  nlohmann::ordered_json json{{"samples", report.samples},
                              {"batches", report.batches},
                              {"seconds", report.seconds},
                              {"samples_per_second", SamplesPerSecond(report)},
                              {"wait_fraction", report.steps.wait_fraction()},
                              {"au", nullptr},
                              {"digest", nullptr},
                              {"records_bad", report.records_bad},
                              {"records_damaged", report.damaged},
                              {"peak_rss_bytes", PeakRssBytes()}};
  if (flags.pace > 0) json["au"] = report.steps.utilisation();
  if (flags.digest) json["digest"] = absl::StrFormat("%016x", report.digest);
  if (!report.status.ok()) json["error"] = std::string(report.status.message());
  std::puts(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void PrintText(const Flags& flags, const Report& report) {
  absl::PrintF("%d samples in %d batches, %.2f s: %.0f samples/s\n", report.samples, report.batches,
               report.seconds, SamplesPerSecond(report));
  absl::PrintF("wait %.1f %% of the time", 100 * report.steps.wait_fraction());
  if (flags.pace > 0) {
    absl::PrintF(", accelerator utilisation %.3f at %.0f img/s", report.steps.utilisation(),
                 flags.pace);
  }
  absl::PrintF("; peak memory %s; %d bad records\n",
               HumanBytes(static_cast<double>(PeakRssBytes())), report.records_bad);
  for (const auto& [reason, count] : report.damaged) {
    absl::PrintF("damaged: %d samples, %s\n", count, reason);
  }
  if (flags.digest) absl::PrintF("digest %016x\n", report.digest);
}

int Run(const Flags& flags) {
  if (const absl::Status status = CheckRank(flags.rank, flags.world); !status.ok()) {
    return FailUsage(status);
  }
  if (flags.force && flags.resume.empty() && flags.token_file.empty()) {
    return FailUsage("--force goes with --resume or --token-file");
  }
  const auto variables = ParseVariables(flags.variables);
  if (!variables.ok()) return FailUsage(variables.status());
  const auto report = RunFile(flags, *variables);
  if (!report.ok()) return Fail(report.status());
  if (report->needs_limit) {
    return FailUsage("the plan repeats for ever: give --batches or --seconds");
  }
  if (flags.json) {
    PrintJson(flags, *report);
  } else if (report->batches > 0 || report->status.ok()) {
    PrintText(flags, *report);
  }
  return report->status.ok() ? kDone : Fail(report->status);
}

}  // namespace

void AddRun(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand("run", "Drive a pipeline without a trainer and measure it");
  command.Add("file", flags->file, "Pipeline file (protobuf text format)").Required();
  command.Add("--var", flags->variables, "NAME=VALUE for ${NAME} in the file; repeatable")
      .OneValueEach();
  command.Add("--batches", flags->batches, "Stop after this many batches (0: no limit)")
      .Whole(0, std::numeric_limits<int64_t>::max());
  command.Add("--seconds", flags->seconds, "Stop after this many seconds (0: no limit)")
      .Finite(0, 1e9);
  command.Add("--threads", flags->threads, "Pipeline threads (0: usable cores)").Whole(0, 4096);
  command.Add("--pace", flags->pace, "Emulate an accelerator that takes this many img/s")
      .Finite(1e-3, 1e12);
  command.Add("--rank", flags->rank, "Read this rank's slice of every batch")
      .Whole(0, kMaxInt)
      .ShowDefault();
  command.Add("--world", flags->world, "Number of ranks").Whole(1, kMaxInt).ShowDefault();
  command.Add("--prefetch", flags->prefetch, "Batches made ahead (0: as the plan says)")
      .Whole(0, 1024);
  const Flag resume = command.Add("--resume", flags->resume, "Continue from this resume token");
  command
      .Add("--token-file", flags->token_file,
           "Continue from the token in this file, if there is one, and keep that of the last "
           "batch there")
      .Excludes(resume);
  command.AddSwitch(
      "--force", flags->force,
      "Continue from a token of another plan or other data all the same, and say what is "
      "lost; one of another semantics_version is refused even so");
  command.Add("--audit", flags->audit,
              "Log the samples of every batch to this file, one for each rank (see audit)");
  command.Add("--quarantine", flags->quarantine,
              "Append the damaged records that are met to this file (see records repair)");
  command.AddSwitch("--digest", flags->digest,
                    "Digest of all valid rows; the ranks' digests add up");
  command.AddSwitch("--json", flags->json, "One JSON object on standard output");
  command.Footer(
      "Examples:\n"
      "  millrace run examples/imagenet/train.pbtxt --var DATA=shards --seconds 10 --json\n"
      "  millrace run pipeline.pbtxt --batches 100 --digest --rank 1 --world 2\n"
      "  millrace run pipeline.pbtxt --seconds 30 --pace 1786\n"
      "  millrace run pipeline.pbtxt --token-file run.token --audit run.audit");
  command.Do([flags] { return Run(*flags); });
}

}  // namespace millrace::cli
