#include "cli/tune/guided.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/tune/comparison.h"

namespace millrace::cli {
namespace {

using pipeline::Diagnosis;
using pipeline::Limit;
using pipeline::WhatIf;

// The settings that may lift a limit.
std::vector<Setting> SettingsOf(Limit limit) {
  switch (limit) {
    case Limit::kWorkers:
      return {Setting::kThreads, Setting::kRun};
    case Limit::kReading:
      return {Setting::kIoThreads, Setting::kReadAhead, Setting::kRing};
    case Limit::kBudget:
      return {Setting::kMemory};
    case Limit::kRing:
      return {Setting::kRing};
    case Limit::kSerial:
      return {Setting::kRun};
    case Limit::kStart:
    case Limit::kConsumer:
    case Limit::kHandOff:
      return {Setting::kRing, Setting::kRun};
    case Limit::kSource:
      return {};
  }
  return {};
}

// The change of the model that more of the setting makes; nullopt: it has none.
std::optional<WhatIf::Kind> KindOf(Setting setting) {
  switch (setting) {
    case Setting::kThreads:
      return WhatIf::Kind::kThreads;
    case Setting::kMemory:
      return WhatIf::Kind::kLargerBudget;
    case Setting::kRing:
      return WhatIf::Kind::kLongerRing;
    default:
      return std::nullopt;
  }
}

// The most that more of the setting is predicted to gain; nullopt: not known. Threads for which
// there are no cores gain nothing.
std::optional<double> GainOf(const Diagnosis& diagnosis, Setting setting) {
  const std::optional<WhatIf::Kind> kind = KindOf(setting);
  if (!kind.has_value()) return std::nullopt;
  double most = 0;
  for (const WhatIf& what_if : diagnosis.what_ifs) {
    if (what_if.kind != *kind) continue;
    if (what_if.at_least && what_if.gain < kWorthwhile) return std::nullopt;
    most = std::max(most, what_if.gain);
  }
  return most;
}

bool IsPredicted(const Diagnosis& diagnosis, Setting setting) {
  return GainOf(diagnosis, setting).value_or(0) >= kWorthwhile;
}

// The most that longer runs can gain: all of the executor's own work. nullopt: it is not the work
// of the workers that binds, or not alone, so that the length of runs may matter in other ways.
std::optional<double> MostOfLongerRuns(const Diagnosis& diagnosis) {
  if (diagnosis.binding != std::vector{Limit::kWorkers}) return std::nullopt;
  double own = 0;
  for (const pipeline::WorkPart& part : diagnosis.parts) {
    if (!part.is_op) own += part.share;
  }
  return own / std::max(0.01, 1 - own);
}

// More open batches may help a consumer to which no wait for them is seen.
bool MayHelp(const Diagnosis& diagnosis, Setting setting) {
  if (setting == Setting::kRun) return MostOfLongerRuns(diagnosis).value_or(1) >= kWorthwhile;
  if (setting != Setting::kThreads && setting != Setting::kMemory) return true;
  return GainOf(diagnosis, setting).value_or(1) >= kWorthwhile;
}

bool Has(const std::vector<Setting>& settings, Setting setting) {
  return std::ranges::find(settings, setting) != settings.end();
}

// The ranks of candidates beside one point.
class Ranks {
 public:
  Ranks(const Settings& now, const Defaults& defaults, const Diagnosis& diagnosis)
      : now_(now), defaults_(defaults), diagnosis_(diagnosis), first_(SettingsFirst(diagnosis)) {}

  // The lower, the earlier. Changes of several settings come behind those of one.
  size_t Of(const Candidate& candidate) const {
    const bool is_first =
        std::ranges::any_of(candidate, [this](const Change& change) { return IsFirst(change); });
    if (is_first && candidate.size() == 1) {
      return static_cast<size_t>(std::ranges::find(first_, candidate[0].setting) - first_.begin());
    }
    if (is_first) return first_.size();
    const bool gains_nothing = std::ranges::all_of(
        candidate, [this](const Change& change) { return GainsNothing(change); });
    return gains_nothing ? last() : first_.size() + 1;
  }
  size_t last() const { return first_.size() + 2; }

 private:
  bool IsLarger(const Change& change) const {
    return change.value > InEffect(now_, change.setting, defaults_);
  }

  bool IsFirst(const Change& change) const {
    return Has(first_, change.setting) && (IsLarger(change) || RunsMayBeShorter(change));
  }

  bool RunsMayBeShorter(const Change& change) const {
    return change.setting == Setting::kRun && !MostOfLongerRuns(diagnosis_).has_value();
  }

  // More of what does not bind gains nothing. Less of it may be as fast, but not fewer threads that
  // are all at work.
  bool GainsNothing(const Change& change) const {
    if (change.setting == Setting::kRun) return !RunsMayBeShorter(change);
    if (IsLarger(change)) return true;
    return change.setting == Setting::kThreads && !diagnosis_.binding.empty() &&
           diagnosis_.binding[0] == Limit::kWorkers;
  }

  const Settings& now_;
  const Defaults& defaults_;
  const Diagnosis& diagnosis_;
  const std::vector<Setting> first_;
};

std::string FirstText(const Diagnosis& diagnosis, Setting setting) {
  std::string text(FieldOf(setting));
  if (!IsPredicted(diagnosis, setting)) return text;
  return absl::StrFormat("%s (about +%.0f %%)", text, 100 * *GainOf(diagnosis, setting));
}

}  // namespace

std::vector<Setting> SettingsFirst(const Diagnosis& diagnosis) {
  std::vector<Setting> first;
  for (const Limit limit : diagnosis.binding) {
    for (const Setting setting : SettingsOf(limit)) {
      if (!Has(first, setting) && MayHelp(diagnosis, setting)) first.push_back(setting);
    }
  }
  for (const Setting setting : kSettings) {
    if (!Has(first, setting) && IsPredicted(diagnosis, setting)) first.push_back(setting);
  }
  return first;
}

CandidateGroups InGuidedOrder(const std::vector<Candidate>& candidates, const Settings& now,
                              const Defaults& defaults, const Diagnosis& diagnosis) {
  if (diagnosis.binding.empty()) return {candidates};
  const Ranks ranks(now, defaults, diagnosis);
  CandidateGroups groups(2);
  for (size_t rank = 0; rank <= ranks.last(); ++rank) {
    for (const Candidate& candidate : candidates) {
      if (ranks.Of(candidate) == rank) groups[rank == ranks.last() ? 1 : 0].push_back(candidate);
    }
  }
  return groups;
}

std::string GuidanceText(const Diagnosis& diagnosis, bool job_fields_only) {
  if (diagnosis.binding.empty()) return "too little was delivered to know what binds";
  const std::string bound =
      "bound by " + absl::StrJoin(diagnosis.binding, " and ", [](std::string* out, Limit limit) {
        out->append(pipeline::LimitName(limit));
      });
  std::vector<Setting> first = SettingsFirst(diagnosis);
  if (job_fields_only) {
    std::erase_if(first, [](Setting setting) { return JobFieldOf(setting).empty(); });
  }
  if (first.empty()) {
    return absl::StrCat(bound, ", which no setting ", job_fields_only ? "of the job " : "",
                        "lifts");
  }
  return absl::StrCat(bound, ": ",
                      absl::StrJoin(first, ", ",
                                    [&](std::string* out, Setting setting) {
                                      out->append(FirstText(diagnosis, setting));
                                    }),
                      " first");
}

}  // namespace millrace::cli
