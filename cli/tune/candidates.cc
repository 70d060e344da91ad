#include "cli/tune/candidates.h"

#include <algorithm>
#include <utility>

namespace millrace::cli {
namespace {

// Settings that keep more on its way.
constexpr Setting kAhead[] = {Setting::kIoThreads, Setting::kReadAhead, Setting::kRing,
                              Setting::kMemory};
constexpr int kFactor = 4;

int MostOf(Setting setting, const TuneLimits& limits) {
  if (setting == Setting::kThreads) return std::min(limits.max_threads, MostOf(setting));
  if (setting == Setting::kMemory) return std::min(limits.max_memory_mib, MostOf(setting));
  return MostOf(setting);
}

// The values beside `value`, the larger ones first.
std::vector<int> ValuesBeside(Setting setting, int value) {
  if (setting == Setting::kThreads) return {2 * value, value + 1, value / 2, value - 1};
  return {kFactor * value, 2 * value, value / 2, value / kFactor};
}

// Makes the candidates around one point.
class Around {
 public:
  Around(const Settings& now, const Defaults& defaults, const TuneLimits& limits)
      : now_(now), defaults_(defaults), limits_(limits) {}

  void AddEach(Setting setting, bool larger, bool smaller) {
    if (!MayChange(setting)) return;
    const int value = InEffect(now_, setting, defaults_);
    for (const int wanted : ValuesBeside(setting, value)) {
      const int other = std::min(wanted, MostOf(setting, limits_));
      if (other < 1 || other == value || (wanted > value) != (other > value)) continue;
      if (other > value ? larger : smaller) Add({{setting, other}});
    }
  }

  // All settings of kAhead raised; nothing if none can be.
  Candidate AllAhead() const {
    Candidate candidate;
    for (const Setting setting : kAhead) {
      if (!MayChange(setting)) continue;
      const int value = InEffect(now_, setting, defaults_);
      const int other = std::min(kFactor * value, MostOf(setting, limits_));
      if (other > value) candidate.push_back({setting, other});
    }
    return candidate;
  }

  void Add(Candidate candidate) {
    const bool is_new = std::ranges::find(candidates_, candidate) == candidates_.end();
    if (is_new && !candidate.empty()) candidates_.push_back(std::move(candidate));
  }

  std::vector<Candidate> Take() && { return std::move(candidates_); }

 private:
  bool MayChange(Setting setting) const {
    return !limits_.job_fields_only || !JobFieldOf(setting).empty();
  }

  const Settings& now_;
  const Defaults& defaults_;
  const TuneLimits& limits_;
  std::vector<Candidate> candidates_;
};

}  // namespace

Settings With(Settings settings, const Candidate& candidate) {
  for (const Change& change : candidate) ValueOf(settings, change.setting) = change.value;
  return settings;
}

std::vector<Candidate> CandidatesInOrder(const Settings& now, const Defaults& defaults,
                                         const TuneLimits& limits,
                                         std::span<const Settings> without_gain) {
  Around around(now, defaults, limits);
  around.AddEach(Setting::kThreads, true, true);
  const Candidate ahead = around.AllAhead();
  around.Add(ahead);
  around.AddEach(Setting::kRun, true, true);
  const bool none_binds = std::ranges::find(without_gain, With(now, ahead)) != without_gain.end();
  for (const Setting setting : kAhead) {
    around.AddEach(setting, !none_binds, ValueOf(now, setting) != 0);
  }
  return std::move(around).Take();
}

}  // namespace millrace::cli
