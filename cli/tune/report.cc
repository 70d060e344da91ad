#include "cli/tune/report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/tune/guided.h"

namespace millrace::cli {
namespace {

// The spread of turns of the same settings on a machine that does nothing else.
constexpr double kCalm = 0.05;

using Outcome = TriedChange::Outcome;
using End = TuneResult::End;

// "+31 %", or "as fast" for what is not seen.
std::string GainText(double gain) {
  const double percent = 100 * gain;
  if (percent > -1 && percent < 1) return "as fast";
  return absl::StrFormat("%+.0f %%", percent);
}

std::string_view OutcomeText(Outcome outcome) {
  switch (outcome) {
    case Outcome::kKept:
      return "kept";
    case Outcome::kNoGain:
      return "no gain";
    case Outcome::kUnclear:
      return "unclear";
    case Outcome::kDidNotRun:
      return "failed";
  }
  return "";
}

std::string_view EndText(End end) {
  switch (end) {
    case End::kTriedAll:
      return "nothing is left to try";
    case End::kTime:
      return "the time is over";
    case End::kPace:
      return "the pace is met";
  }
  return "";
}

// The gain of all kept changes of a setting together.
struct Effect {
  double factor = 1;
  int turns = 0;
  bool together = false;  // true if others were changed with it
};

Effect EffectOn(const TuneResult& result, Setting setting) {
  Effect effect;
  for (const TriedChange& tried : result.tried) {
    const bool has_it =
        std::ranges::find(tried.candidate, setting, &Change::setting) != tried.candidate.end();
    if (tried.outcome != Outcome::kKept || !has_it) continue;
    effect.factor *= 1 + tried.comparison.gain;
    effect.turns += tried.turns.size();
    effect.together |= tried.candidate.size() > 1;
  }
  return effect;
}

std::string CommentOf(const TuneReport& report, Setting setting) {
  const int before = ValueOf(report.before, setting);
  const int in_effect = InEffect(report.before, setting, report.defaults);
  const std::string was = absl::StrCat("was ", in_effect, before == 0 ? " by default" : "");
  const Effect effect = EffectOn(report.result, setting);
  if (effect.turns == 0) return was + ": over the limit of the search";
  return absl::StrFormat("%s: %s%s, measured %d x", was, GainText(effect.factor - 1),
                         effect.together ? " with others" : "", effect.turns);
}

std::string RateText(const Turns& turns) {
  return absl::StrFormat("%.0f +- %.1f %%", turns.best(), 100 * turns.spread());
}

bool IsOfJob(const TuneReport& report) { return !report.plan_file.empty(); }

// The file that has the setting.
TunedFile FileOf(const TuneReport& report, Setting setting) {
  return IsOfJob(report) && !JobFieldOf(setting).empty() ? TunedFile::kJob : TunedFile::kPlan;
}

std::string_view NameIn(TunedFile file, Setting setting) {
  return file == TunedFile::kJob ? JobFieldOf(setting) : FieldOf(setting);
}

std::string_view NameOf(const TuneReport& report, Setting setting) {
  return NameIn(FileOf(report, setting), setting);
}

void PrintTried(const TuneReport& report, const TriedChange& tried) {
  for (size_t i = 0; i < tried.candidate.size(); ++i) {
    absl::PrintF("  %-18s %6d -> %-6d", NameOf(report, tried.candidate[i].setting), tried.before[i],
                 tried.candidate[i].value);
    if (i + 1 < tried.candidate.size()) absl::PrintF(" and\n");
  }
  if (tried.outcome == Outcome::kDidNotRun) {
    absl::PrintF(" failed: %s\n", tried.error);
    return;
  }
  absl::PrintF(" %16s  %+6.1f +- %.1f %%  %s\n", RateText(tried.turns), 100 * tried.comparison.gain,
               200 * tried.comparison.error, OutcomeText(tried.outcome));
}

// Prints the limit that the diagnosis named after as many kept changes.
void PrintDiagnosis(const TuneReport& report, size_t kept, std::string_view when) {
  if (kept >= report.diagnosed.size()) return;
  absl::PrintF("  %s%s\n", when,
               GuidanceText(report.diagnosed[kept].diagnosis, report.limits.job_fields_only));
}

void PrintChangesOf(const std::vector<pipeline::FieldChange>& changes) {
  for (const pipeline::FieldChange& change : changes) {
    const std::string value = change.text.value_or(absl::StrCat(change.value));
    absl::PrintF("  %s: %s  (%s)\n", change.field, value, change.comment);
  }
}

void PrintChanges(const TuneReport& report) {
  const std::vector<pipeline::FieldChange> job = ChangesOf(report, TunedFile::kJob);
  const std::vector<pipeline::FieldChange> plan = ChangesOf(report, TunedFile::kPlan);
  absl::PrintF("\n");
  if (job.empty() && plan.empty()) {
    absl::PrintF("no change of the %s is worth it; its text stays\n",
                 IsOfJob(report) ? "job" : "plan");
  }
  PrintChangesOf(job);
  if (IsOfJob(report) && !plan.empty()) absl::PrintF("in the plan %s\n", report.plan_file);
  PrintChangesOf(plan);
  for (const std::string& out : {report.out, report.plan_out}) {
    if (!out.empty()) absl::PrintF("wrote %s\n", out);
  }
  for (const auto& [name, value] : report.variables) {
    absl::PrintF("a variable stands for it: --var %s=%s\n", name, value);
  }
}

void PrintJobNotes(const TuneReport& report) {
  absl::PrintF("\ncompute threads stay %d: results depend on their number\n",
               report.compute_threads);
  if (report.limits.job_fields_only) {
    absl::PrintF("%s was left alone; --plan-out tunes it too\n", report.plan_file);
  }
}

nlohmann::ordered_json TurnsJson(const Turns& turns) {
  return {
      {"samples_per_second", turns.best()}, {"spread", turns.spread()}, {"turns", turns.size()}};
}

nlohmann::ordered_json DiagnosedJson(const pipeline::Diagnosis& diagnosis) {
  nlohmann::ordered_json json = {{"binding", nlohmann::ordered_json::array()},
                                 {"first", nlohmann::ordered_json::array()},
                                 {"sentence", diagnosis.sentence}};
  for (const pipeline::Limit limit : diagnosis.binding) {
    json["binding"].push_back(pipeline::LimitName(limit));
  }
  for (const Setting setting : SettingsFirst(diagnosis)) json["first"].push_back(FieldOf(setting));
  return json;
}

nlohmann::ordered_json ChangesJson(const std::vector<pipeline::FieldChange>& changes) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const pipeline::FieldChange& change : changes) {
    nlohmann::ordered_json value = change.value;
    if (change.text.has_value()) value = *change.text;
    json[change.field] = value;
  }
  return json;
}

nlohmann::ordered_json TriedJson(const TuneReport& report, const TriedChange& tried) {
  nlohmann::ordered_json json = {{"changes", nlohmann::ordered_json::array()},
                                 {"outcome", OutcomeText(tried.outcome)}};
  for (size_t i = 0; i < tried.candidate.size(); ++i) {
    json["changes"].push_back({{"setting", NameOf(report, tried.candidate[i].setting)},
                               {"before", tried.before[i]},
                               {"value", tried.candidate[i].value}});
  }
  if (tried.outcome == Outcome::kDidNotRun) {
    json["error"] = tried.error;
    return json;
  }
  json.update(TurnsJson(tried.turns));
  json["gain"] = tried.comparison.gain;
  json["standard_error"] = tried.comparison.error;
  return json;
}

}  // namespace

std::vector<pipeline::FieldChange> ChangesOf(const TuneReport& report, TunedFile file) {
  std::vector<pipeline::FieldChange> changes;
  for (const Setting setting : kSettings) {
    if (FileOf(report, setting) != file) continue;
    const int value = ValueOf(report.result.settings, setting);
    // Some defaults follow other settings, so the value that was there before may not be any more.
    Settings unwritten = report.result.settings;
    ValueOf(unwritten, setting) = ValueOf(report.before, setting);
    if (value == 0 || value == InEffect(unwritten, setting, report.defaults)) continue;
    changes.push_back({std::string(NameIn(file, setting)), static_cast<uint64_t>(value),
                       CommentOf(report, setting)});
  }
  if (file == TunedFile::kJob && !report.train.empty()) {
    changes.push_back({.field = "train",
                       .comment = absl::StrCat("was ", report.train_before),
                       .text = report.train});
  }
  return changes;
}

void PrintTuneText(const TuneReport& report) {
  const TuneResult& result = report.result;
  absl::PrintF("%s: %s samples/s; %s: %d, usable cores: %d\n", report.file, RateText(result.start),
               NameOf(report, Setting::kThreads),
               InEffect(report.before, Setting::kThreads, report.defaults), report.defaults.cores);
  if (result.start.spread() > kCalm) {
    absl::PrintF("  turns without a change differ much: other programs use the machine\n");
  }
  PrintDiagnosis(report, 0, "");
  size_t kept = 0;
  for (const TriedChange& tried : result.tried) {
    PrintTried(report, tried);
    if (tried.outcome == Outcome::kKept) PrintDiagnosis(report, ++kept, "now ");
  }
  absl::PrintF("%d changes tried in %.0f s; %s\n", result.tried.size(), report.seconds,
               EndText(result.end));
  if (report.limits.pace > 0 && result.end != End::kPace) {
    absl::PrintF("the pace of %.0f samples/s is not met: %.0f at most\n", report.limits.pace,
                 result.best.best());
  }
  PrintChanges(report);
  if (IsOfJob(report)) PrintJobNotes(report);
  if (report.advice.empty()) return;
  absl::PrintF("\nfaster too, but with other batches, so left alone:\n");
  for (const std::string& line : report.advice) absl::PrintF("  %s\n", line);
}

void PrintTuneJson(const TuneReport& report) {
  nlohmann::ordered_json json = {{"file", report.file},
                                 {"cores", report.defaults.cores},
                                 {"seconds", report.seconds},
                                 {"end", EndText(report.result.end)},
                                 {"before", TurnsJson(report.result.start)},
                                 {"after", TurnsJson(report.result.best)}};
  json["diagnosed"] = nlohmann::ordered_json::array();
  for (const TuneReport::Diagnosed& one : report.diagnosed) {
    json["diagnosed"].push_back(DiagnosedJson(one.diagnosis));
  }
  const TunedFile file = IsOfJob(report) ? TunedFile::kJob : TunedFile::kPlan;
  json["changes"] = ChangesJson(ChangesOf(report, file));
  json["tried"] = nlohmann::ordered_json::array();
  for (const TriedChange& tried : report.result.tried) {
    json["tried"].push_back(TriedJson(report, tried));
  }
  json["advice"] = report.advice;
  if (!report.variables.empty()) json["variables"] = report.variables;
  if (!report.out.empty()) json["out"] = report.out;
  if (IsOfJob(report)) {
    json["compute_threads"] = report.compute_threads;
    json["plan"] = {{"file", report.plan_file},
                    {"changes", ChangesJson(ChangesOf(report, TunedFile::kPlan))}};
    if (!report.plan_out.empty()) json["plan"]["out"] = report.plan_out;
  }
  absl::PrintF("%s\n", json.dump());
}

}  // namespace millrace::cli
