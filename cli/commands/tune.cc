#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/context.h"
#include "base/host.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/flags/checks.h"
#include "cli/tune/advice.h"
#include "cli/tune/guided.h"
#include "cli/tune/plan_target.h"
#include "cli/tune/report.h"
#include "cli/tune/search.h"
#include "cli/tune/target.h"
#include "cli/tune/trials.h"
#include "cli/tune/tuned_text.h"
#include "cli/wait/progress.h"
#include "pipeline/diagnosis.h"
#include "pipeline/edit_plan.h"
#include "pipeline/edit_text.h"
#include "pipeline/performance.h"
#include "pipeline/plan.h"

// `millrace tune` measures a plan, or the training of a job, under other settings of its
// performance, and writes its file with the best ones. No batch and no weight changes: only fields
// that are outside the plan's fingerprint do, and those that a job's weights do not depend on.

namespace millrace::cli {
namespace {

using pipeline::Plan;

struct Flags {
  std::string file;
  std::string out;
  std::string plan_out;
  bool overwrite = false;
  bool json = false;
  std::vector<std::string> variables;
  TuneLimits limits = {.max_threads = 0, .max_memory_mib = 0};  // 0: as the machine has
  double turn = 0;                                              // seconds; 0: by the limit
};

// A turn takes this part of the time, within limits.
constexpr double kTurnPart = 0.01;
constexpr double kShortestTurn = 0.1;
constexpr double kLongestTurn = 1;

// The memory that the search may try: three quarters of the limit on this process, or the default
// budget where there is none; and what the plan has.
int MostMemoryMib(const Settings& settings, const Defaults& defaults) {
  const int now = InEffect(settings, Setting::kMemory, defaults);
  const auto limit = ReadMemoryLimit();
  if (!limit.has_value()) return std::max(now, static_cast<int>(kDefaultMemoryBudget >> 20));
  return std::max(now, static_cast<int>(std::min<uint64_t>(*limit / 4 * 3 >> 20, kMaxMib)));
}

// Fills in the limits that no flag gives.
void FillLimits(const Settings& settings, const Defaults& defaults, TuneLimits& limits) {
  if (limits.max_threads == 0) {
    limits.max_threads = std::max(defaults.cores, settings.threads);
  }
  if (limits.max_memory_mib == 0) limits.max_memory_mib = MostMemoryMib(settings, defaults);
}

// The settings of the plan, inside the limits.
Settings StartOf(Settings settings, const Defaults& defaults, const TuneLimits& limits) {
  const std::pair<Setting, int> most[] = {{Setting::kThreads, limits.max_threads},
                                          {Setting::kMemory, limits.max_memory_mib}};
  for (const auto& [setting, value] : most) {
    if (InEffect(settings, setting, defaults) > value) ValueOf(settings, setting) = value;
  }
  return settings;
}

// The diagnosis of the settings, once for all the time that the search stays with them.
const pipeline::Diagnosis& DiagnosisNow(const Settings& now, const Trials& trials,
                                        TuneReport& report) {
  if (report.diagnosed.empty() || report.diagnosed.back().settings != now) {
    report.diagnosed.push_back({now, trials.DiagnosisOf(now).value_or(pipeline::Diagnosis{})});
  }
  return report.diagnosed.back().diagnosis;
}

// Fills in the results of `report`, whose files, limits and settings before are there.
absl::Status Search(const Flags& flags, TuneTarget& target, TuneReport& report) {
  const double turn =
      flags.turn > 0 ? flags.turn
                     : std::clamp(kTurnPart * flags.limits.seconds, kShortestTurn, kLongestTurn);
  const double begin = SecondsNow();
  Trials trials(target, turn);
  MILLRACE_ASSIGN_OR_RETURN(report.defaults, trials.FindDefaults(report.before));
  FillLimits(report.before, report.defaults, report.limits);
  const auto candidates = [&](const Settings& now, std::span<const Settings> without_gain) {
    return InGuidedOrder(CandidatesInOrder(now, report.defaults, report.limits, without_gain), now,
                         report.defaults, DiagnosisNow(now, trials, report));
  };
  const TuneBench bench = {SecondsNow,
                           [&trials](const Settings& settings) { return trials.Turn(settings); }};
  Progress progress("tune", "seconds", static_cast<int64_t>(flags.limits.seconds));
  const auto seen = [&progress](double passed) { progress.Update(static_cast<int64_t>(passed)); };
  MILLRACE_ASSIGN_OR_RETURN(
      report.result, Tune(StartOf(report.before, report.defaults, report.limits), report.defaults,
                          report.limits, candidates, bench, seen));
  report.seconds = SecondsNow() - begin;
  return absl::OkStatus();
}

std::string TitleOf(const TuneReport& report) {
  return absl::StrCat("by millrace tune, on ", report.defaults.cores, " cores");
}

absl::StatusOr<TuneReport> TunePlan(const Flags& flags, const pipeline::Variables& variables) {
  const TunedText tuned = {flags.file, flags.out, flags.overwrite};
  MILLRACE_RETURN_IF_ERROR(CheckFree(tuned));
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadText(flags.file));
  MILLRACE_ASSIGN_OR_RETURN(const Plan plan, Plan::FromFile(flags.file, variables));
  MILLRACE_RETURN_IF_ERROR(CheckPlanFits(tuned, plan, {text, variables}));  // before the search
  TuneReport report;
  report.file = flags.file;
  report.before = pipeline::PerformanceOf(plan);
  report.limits = flags.limits;
  PlanTarget target(plan);
  MILLRACE_RETURN_IF_ERROR(Search(flags, target, report));
  report.advice = AdviceFor(plan);
  MILLRACE_ASSIGN_OR_RETURN(
      const pipeline::EditedText edited,
      pipeline::EditPlanText(text, variables, ChangesOf(report, TunedFile::kPlan),
                             TitleOf(report)));
  report.variables = ChangedOf(variables, edited.variables);
  if (flags.out.empty()) return report;
  MILLRACE_RETURN_IF_ERROR(CheckPlanFits(tuned, plan, edited));
  MILLRACE_RETURN_IF_ERROR(WriteText(tuned, edited.text));
  report.out = flags.out;
  return report;
}

// The plan of the job gets another name, unless it is replaced.
void NamePlan(const Flags& flags, TuneReport& report) {
  const std::string before = NameBeside(flags.file, report.plan_file);
  const std::string name = NameBeside(flags.file, flags.plan_out);
  if (name == before) return;
  report.train = name;
  report.train_before = before;
}

// Writes the file of the job, if it is to be.
absl::Status WriteJob(const TunedText& tuned, const TunedJob& job, const std::string& text,
                      const pipeline::Variables& variables, TuneReport& report) {
  MILLRACE_ASSIGN_OR_RETURN(
      const pipeline::EditedText edited,
      job.Edit(text, variables, ChangesOf(report, TunedFile::kJob), TitleOf(report)));
  report.variables.merge(ChangedOf(variables, edited.variables));
  if (tuned.out.empty()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(WriteText(tuned, edited.text));
  report.out = tuned.out;
  return absl::OkStatus();
}

// Writes the file of the job's plan, if it is to be.
absl::Status WritePlanOfJob(const TunedText& tuned, const TunedJob& job, const std::string& text,
                            const pipeline::Variables& variables, TuneReport& report) {
  MILLRACE_ASSIGN_OR_RETURN(
      const pipeline::EditedText edited,
      pipeline::EditPlanText(text, variables, ChangesOf(report, TunedFile::kPlan),
                             TitleOf(report)));
  report.variables.merge(ChangedOf(variables, edited.variables));
  if (tuned.out.empty()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(CheckPlanFits(tuned, job.plan(), edited));
  MILLRACE_RETURN_IF_ERROR(WriteText(tuned, edited.text));
  report.plan_out = tuned.out;
  return absl::OkStatus();
}

absl::StatusOr<TuneReport> TuneJob(const Flags& flags, const pipeline::Variables& variables,
                                   JobOpener open) {
  const TunedText tuned = {flags.file, flags.out, flags.overwrite};
  MILLRACE_RETURN_IF_ERROR(CheckFree(tuned));
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadText(flags.file));
  MILLRACE_RETURN_IF_ERROR(CheckJobFits(tuned));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<TunedJob> job, open(flags.file, variables));
  const TunedText tuned_plan = {job->plan_path(), flags.plan_out, flags.overwrite};
  MILLRACE_RETURN_IF_ERROR(CheckFree(tuned_plan));
  MILLRACE_ASSIGN_OR_RETURN(const std::string plan_text, ReadText(tuned_plan.file));
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::Variables plan_variables,
                            NamedIn(tuned_plan.file, variables));
  MILLRACE_RETURN_IF_ERROR(CheckPlanFits(tuned_plan, job->plan(), {plan_text, plan_variables}));
  TuneReport report;
  report.file = flags.file;
  report.plan_file = tuned_plan.file;
  report.compute_threads = job->compute_threads();
  report.before = job->settings();
  report.limits = flags.limits;
  report.limits.job_fields_only = !flags.out.empty() && flags.plan_out.empty();
  if (!flags.plan_out.empty()) NamePlan(flags, report);
  MILLRACE_RETURN_IF_ERROR(  // before the search
      job->Edit(text, variables, ChangesOf(report, TunedFile::kJob), "").status());
  MILLRACE_RETURN_IF_ERROR(Search(flags, *job, report));
  report.advice = AdviceFor(job->plan());
  MILLRACE_RETURN_IF_ERROR(WritePlanOfJob(tuned_plan, *job, plan_text, plan_variables, report));
  MILLRACE_RETURN_IF_ERROR(WriteJob(tuned, *job, text, variables, report));
  return report;
}

int Run(const Flags& flags, const JobExplainer& jobs, JobOpener open_job) {
  const auto variables = ParseVariables(flags.variables);
  if (!variables.ok()) return FailUsage(variables.status());
  const bool is_job = jobs.is_job != nullptr && jobs.is_job(flags.file);
  if (is_job && open_job == nullptr) {
    return FailUsage(flags.file + ": this is a job, and this program does not train");
  }
  if (!flags.plan_out.empty() && (!is_job || flags.out.empty() || flags.plan_out == flags.out)) {
    return FailUsage("--plan-out goes with a job, and with another file of -o");
  }
  const auto report = is_job ? TuneJob(flags, *variables, open_job) : TunePlan(flags, *variables);
  if (!report.ok()) return Fail(report.status());
  if (flags.json) {
    PrintTuneJson(*report);
  } else {
    PrintTuneText(*report);
  }
  return kDone;
}

}  // namespace

void AddTune(Command parent, const JobExplainer& jobs, JobOpener open_job) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand(
      "tune", "Measure a pipeline or a job under other settings, and write its file with the best");
  command.Add("file", flags->file, "Pipeline or job file (protobuf text format)").Required();
  command.Add("-o,--out", flags->out,
              "The file to write: the plan or job as it is, but for its performance");
  command.Add("--plan-out", flags->plan_out,
              "With a job: the file to write of its plan, whose own settings are tuned too");
  command.AddSwitch("--overwrite", flags->overwrite, "Replace the file to write if it exists");
  command.Add("--var", flags->variables, "NAME=VALUE for ${NAME} in the file; repeatable")
      .OneValueEach();
  command.Add("--seconds", flags->limits.seconds, "Time of the whole search")
      .Finite(1, 1e6)
      .ShowDefault();
  command.Add("--turn", flags->turn, "Seconds of one measurement (0: by the time of the search)")
      .Finite(0, 1e4);
  command
      .Add("--pace", flags->limits.pace,
           "Samples per second that are enough: find the fewest threads for them")
      .Finite(0, 1e12);
  command.Add("--max-threads", flags->limits.max_threads, "Most pipeline threads (0: usable cores)")
      .Whole(0, 1024);
  command
      .Add("--max-memory-mib", flags->limits.max_memory_mib,
           "Largest memory budget (0: three quarters of the limit on this process, else 2048)")
      .Whole(0, kMaxMib);
  command.AddSwitch("--json", flags->json, "One JSON object on standard output");
  command.Footer(
      "Examples:\n"
      "  millrace tune examples/imagenet/train.pbtxt --var DATA=shards \\\n"
      "      -o examples/imagenet/tuned.pbtxt\n"
      "  millrace tune pipeline.pbtxt --seconds 20 --pace 1786 --json\n"
      "  millrace tune job.pbtxt -o better_job.pbtxt");
  command.Do([flags, jobs, open_job] { return Run(*flags, jobs, open_job); });
}

}  // namespace millrace::cli
