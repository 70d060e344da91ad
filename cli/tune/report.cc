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

void PrintTried(const TriedChange& tried) {
  for (size_t i = 0; i < tried.candidate.size(); ++i) {
    absl::PrintF("  %-18s %6d -> %-6d", FieldOf(tried.candidate[i].setting), tried.before[i],
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
  absl::PrintF("  %s%s\n", when, GuidanceText(report.diagnosed[kept].diagnosis));
}

void PrintChanges(const TuneReport& report) {
  const std::vector<pipeline::FieldChange> changes = ChangesOf(report);
  if (changes.empty()) absl::PrintF("\nno change of the plan is worth it; its text stays\n");
  if (!changes.empty()) absl::PrintF("\n");
  for (const pipeline::FieldChange& change : changes) {
    absl::PrintF("  %s: %d  (%s)\n", change.field, change.value, change.comment);
  }
  if (!report.out.empty()) absl::PrintF("wrote %s\n", report.out);
  for (const auto& [name, value] : report.variables) {
    absl::PrintF("the plan has a variable for it: --var %s=%s\n", name, value);
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

nlohmann::ordered_json TriedJson(const TriedChange& tried) {
  nlohmann::ordered_json json = {{"changes", nlohmann::ordered_json::array()},
                                 {"outcome", OutcomeText(tried.outcome)}};
  for (size_t i = 0; i < tried.candidate.size(); ++i) {
    json["changes"].push_back({{"setting", FieldOf(tried.candidate[i].setting)},
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

std::vector<pipeline::FieldChange> ChangesOf(const TuneReport& report) {
  std::vector<pipeline::FieldChange> changes;
  for (const Setting setting : kSettings) {
    const int value = ValueOf(report.result.settings, setting);
    // Some defaults follow other settings, so the value that was there before may not be any more.
    Settings unwritten = report.result.settings;
    ValueOf(unwritten, setting) = ValueOf(report.before, setting);
    if (value == 0 || value == InEffect(unwritten, setting, report.defaults)) continue;
    changes.push_back(
        {std::string(FieldOf(setting)), static_cast<uint64_t>(value), CommentOf(report, setting)});
  }
  return changes;
}

void PrintTuneText(const TuneReport& report) {
  const TuneResult& result = report.result;
  absl::PrintF("%s: %s samples/s; threads: %d, usable cores: %d\n", report.file,
               RateText(result.start), InEffect(report.before, Setting::kThreads, report.defaults),
               report.defaults.threads);
  if (result.start.spread() > kCalm) {
    absl::PrintF("  turns without a change differ much: other programs use the machine\n");
  }
  PrintDiagnosis(report, 0, "");
  size_t kept = 0;
  for (const TriedChange& tried : result.tried) {
    PrintTried(tried);
    if (tried.outcome == Outcome::kKept) PrintDiagnosis(report, ++kept, "now ");
  }
  absl::PrintF("%d changes tried in %.0f s; %s\n", result.tried.size(), report.seconds,
               EndText(result.end));
  if (report.limits.pace > 0 && result.end != End::kPace) {
    absl::PrintF("the pace of %.0f samples/s is not met: %.0f at most\n", report.limits.pace,
                 result.best.best());
  }
  PrintChanges(report);
  if (report.advice.empty()) return;
  absl::PrintF("\nfaster too, but with other batches, so left alone:\n");
  for (const std::string& line : report.advice) absl::PrintF("  %s\n", line);
}

void PrintTuneJson(const TuneReport& report) {
  nlohmann::ordered_json json = {{"file", report.file},
                                 {"cores", report.defaults.threads},
                                 {"seconds", report.seconds},
                                 {"end", EndText(report.result.end)},
                                 {"before", TurnsJson(report.result.start)},
                                 {"after", TurnsJson(report.result.best)}};
  json["diagnosed"] = nlohmann::ordered_json::array();
  for (const TuneReport::Diagnosed& one : report.diagnosed) {
    json["diagnosed"].push_back(DiagnosedJson(one.diagnosis));
  }
  json["changes"] = nlohmann::ordered_json::object();
  for (const pipeline::FieldChange& change : ChangesOf(report)) {
    json["changes"][change.field] = change.value;
  }
  json["tried"] = nlohmann::ordered_json::array();
  for (const TriedChange& tried : report.result.tried) json["tried"].push_back(TriedJson(tried));
  json["advice"] = report.advice;
  if (!report.variables.empty()) json["variables"] = report.variables;
  if (!report.out.empty()) json["out"] = report.out;
  absl::PrintF("%s\n", json.dump());
}

}  // namespace millrace::cli
