#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/context.h"
#include "base/host.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/flags/checks.h"
#include "cli/tune/advice.h"
#include "cli/tune/guided.h"
#include "cli/tune/report.h"
#include "cli/tune/search.h"
#include "cli/tune/trials.h"
#include "cli/wait/progress.h"
#include "pipeline/diagnosis.h"
#include "pipeline/edit_plan.h"
#include "pipeline/performance.h"
#include "pipeline/plan.h"
#include "pipeline/text_proto.h"
#include "readers/open_file.h"

// `millrace tune` measures a plan under other settings of its performance, and writes its file with
// the best ones. No batch changes: only fields that are outside the plan's fingerprint do.

namespace millrace::cli {
namespace {

using pipeline::Plan;

struct Flags {
  std::string file;
  std::string out;
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
    limits.max_threads = std::max(defaults.threads, settings.threads);
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
const pipeline::Diagnosis& DiagnosisNow(const Settings& now, const PlanTrials& trials,
                                        TuneReport& report) {
  if (report.diagnosed.empty() || report.diagnosed.back().settings != now) {
    report.diagnosed.push_back({now, trials.DiagnosisOf(now).value_or(pipeline::Diagnosis{})});
  }
  return report.diagnosed.back().diagnosis;
}

absl::StatusOr<TuneReport> Search(const Flags& flags, const Plan& plan) {
  TuneReport report;
  report.file = flags.file;
  report.before = pipeline::PerformanceOf(plan);
  report.limits = flags.limits;
  const double turn =
      flags.turn > 0 ? flags.turn
                     : std::clamp(kTurnPart * flags.limits.seconds, kShortestTurn, kLongestTurn);
  const double begin = SecondsNow();
  PlanTrials trials(plan, turn);
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
  report.advice = AdviceFor(plan);
  return report;
}

std::filesystem::path FolderOf(const std::string& file) {
  std::error_code error;
  return std::filesystem::weakly_canonical(std::filesystem::absolute(file, error).parent_path(),
                                           error);
}

// Checks that the text, as the file that it is to be, is the plan with other performance.
//   FAILED_PRECONDITION  its names of files would be relative to another folder
absl::Status CheckIsSame(const Flags& flags, const Plan& plan, const pipeline::EditedText& edited) {
  const bool same_folder = FolderOf(flags.out) == FolderOf(flags.file);
  MILLRACE_ASSIGN_OR_RETURN(
      const Plan changed,
      Plan::FromTextOfFile(edited.text, same_folder ? flags.file : flags.out, edited.variables));
  if (changed.Fingerprint() != plan.Fingerprint()) {
    return absl::InternalError("the changed plan has another fingerprint");
  }
  if (SameButPerformance(plan, changed)) return absl::OkStatus();
  if (same_folder) return absl::InternalError("the changed plan is another plan");
  return absl::FailedPreconditionError(
      absl::StrCat(flags.out, ": names of files in the plan are relative to its folder; write to ",
                   FolderOf(flags.file).string()));
}

absl::Status WriteFile(const Flags& flags, const std::string& text) {
  MILLRACE_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(flags.out));
  MILLRACE_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(text))));
  return file->Commit(/*sync=*/false, flags.overwrite ? Existing::kReplace : Existing::kKeep);
}

absl::Status CheckFree(const Flags& flags) {
  std::error_code error;
  if (flags.out.empty() || flags.overwrite || !std::filesystem::exists(flags.out, error)) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(absl::StrCat(flags.out, ": exists; --overwrite replaces it"));
}

// Variables whose values are not those that were given.
std::map<std::string, std::string> ChangedOf(const pipeline::Variables& given,
                                             const pipeline::Variables& now) {
  std::map<std::string, std::string> changed;
  for (const auto& [name, value] : now) {
    if (given.at(name) != value) changed.emplace(name, value);
  }
  return changed;
}

absl::StatusOr<TuneReport> TuneFile(const Flags& flags, const pipeline::Variables& variables) {
  MILLRACE_RETURN_IF_ERROR(CheckFree(flags));
  MILLRACE_ASSIGN_OR_RETURN(const std::string text,
                            readers::ReadWholeFile(flags.file, pipeline::kMaxTextProtoBytes));
  MILLRACE_ASSIGN_OR_RETURN(const Plan plan, Plan::FromFile(flags.file, variables));
  if (!flags.out.empty()) {  // not after a minute's search
    MILLRACE_RETURN_IF_ERROR(CheckIsSame(flags, plan, {text, variables}));
    MILLRACE_RETURN_IF_ERROR(AtomicFile::Create(flags.out).status());
  }
  MILLRACE_ASSIGN_OR_RETURN(TuneReport report, Search(flags, plan));
  const std::string title =
      absl::StrCat("by millrace tune, on ", report.defaults.threads, " cores");
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::EditedText edited,
                            pipeline::EditPlanText(text, variables, ChangesOf(report), title));
  report.variables = ChangedOf(variables, edited.variables);
  if (flags.out.empty()) return report;
  MILLRACE_RETURN_IF_ERROR(CheckIsSame(flags, plan, edited));
  MILLRACE_RETURN_IF_ERROR(WriteFile(flags, edited.text));
  report.out = flags.out;
  return report;
}

int Run(const Flags& flags, const JobExplainer& jobs) {
  const auto variables = ParseVariables(flags.variables);
  if (!variables.ok()) return FailUsage(variables.status());
  if (jobs.is_job != nullptr && jobs.is_job(flags.file)) {
    return FailUsage(flags.file +
                     ": this is a job or a model; give the plan that the job names in `train`");
  }
  const auto report = TuneFile(flags, *variables);
  if (!report.ok()) return Fail(report.status());
  if (flags.json) {
    PrintTuneJson(*report);
  } else {
    PrintTuneText(*report);
  }
  return kDone;
}

}  // namespace

void AddTune(Command parent, const JobExplainer& jobs) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand(
      "tune", "Measure a pipeline under other settings, and write its file with the best ones");
  command.Add("file", flags->file, "Pipeline file (protobuf text format)").Required();
  command.Add("-o,--out", flags->out,
              "The file to write: the plan as it is, but for its performance");
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
      "  millrace tune pipeline.pbtxt --seconds 20 --pace 1786 --json");
  command.Do([flags, jobs] { return Run(*flags, jobs); });
}

}  // namespace millrace::cli
