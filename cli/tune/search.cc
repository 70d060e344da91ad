#include "cli/tune/search.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/status.h"

namespace millrace::cli {
namespace {

constexpr int kFirstTurns = 4;  // of the settings of the beginning
constexpr int kRounds = 3;      // A B B A, at most
constexpr int kMostTries = 3;   // of a candidate, as long as its outcome is not clear
// A rate that meets the pace with some room.
constexpr double kPaceRoom = 1.02;

using Outcome = TriedChange::Outcome;

class Search {
 public:
  Search(const Settings& start, const Defaults& defaults, const TuneLimits& limits,
         const TuneBench& bench, const std::function<void(double)>& seen)
      : defaults_(defaults), limits_(limits), bench_(bench), seen_(seen), begin_(bench.now()) {
    result_.settings = start;
    start_ = start;
  }

  absl::StatusOr<TuneResult> Run(const Candidates& candidates) {
    for (int i = 0; i < kFirstTurns && (i < 2 || HasTimeFor(1)); ++i) {
      MILLRACE_RETURN_IF_ERROR(Turn(result_.settings, result_.start));
    }
    result_.best = result_.start;
    while (const std::optional<Candidate> next = Next(candidates)) {
      if (!HasTimeFor(4)) {
        result_.end = TuneResult::End::kTime;
        return std::move(result_);
      }
      MILLRACE_RETURN_IF_ERROR(Try(*next));
    }
    result_.end = MeetsPace() ? TuneResult::End::kPace : TuneResult::End::kTriedAll;
    return std::move(result_);
  }

 private:
  bool MeetsPace() const {
    return limits_.pace > 0 && result_.best.best() >= kPaceRoom * limits_.pace;
  }

  int ValueNow(Setting setting) const { return InEffect(result_.settings, setting, defaults_); }

  bool IsLarger(const Change& change) const { return change.value > ValueNow(change.setting); }

  // True if the candidate needs no gain: it takes less of what is dear, or of what the search has
  // raised.
  bool IsSaving(const Candidate& candidate) const {
    return std::ranges::all_of(candidate, [this](const Change& change) {
      if (IsLarger(change)) return false;
      const bool was_raised = ValueOf(result_.settings, change.setting) != 0 &&
                              change.value >= InEffect(start_, change.setting, defaults_);
      return change.setting == Setting::kThreads || was_raised;
    });
  }

  // The number of times that these settings were tried; kMostTries once the outcome was clear.
  int TriesOf(const Settings& settings) const {
    int tries = 0;
    for (const TriedChange& tried : result_.tried) {
      if (tried.settings != settings) continue;
      tries = tried.outcome == Outcome::kUnclear ? tries + 1 : kMostTries;
    }
    return tries;
  }

  // With a pace that is met only fewer threads are of interest.
  bool IsWanted(const Candidate& candidate) const {
    if (!MeetsPace()) return true;
    return std::ranges::all_of(candidate, [this](const Change& change) {
      return change.setting == Setting::kThreads && !IsLarger(change);
    });
  }

  // True if it goes on with the last one that was kept.
  bool GoesOn(const Candidate& candidate) const {
    return kept_.size() == candidate.size() &&
           std::ranges::equal(candidate, kept_, [this](const Change& now, const Change& kept) {
             return now.setting == kept.setting && IsLarger(now) == kept_is_larger_;
           });
  }

  std::optional<Candidate> Next(const Candidates& candidates) const {
    for (const std::vector<Candidate>& group : candidates(result_.settings, without_gain_)) {
      if (std::optional<Candidate> next = NextOf(group)) return next;
    }
    return std::nullopt;
  }

  // The candidate to try next: one that was not tried, else one whose outcome is not clear; first
  // those that go on.
  std::optional<Candidate> NextOf(const std::vector<Candidate>& group) const {
    for (int tries = 0; tries < kMostTries; ++tries) {
      std::vector<Candidate> left;
      std::ranges::copy_if(group, std::back_inserter(left), [&](const Candidate& one) {
        return IsWanted(one) && TriesOf(With(result_.settings, one)) == tries;
      });
      if (left.empty()) continue;
      const auto next =
          std::ranges::find_if(left, [this](const Candidate& one) { return GoesOn(one); });
      return next != left.end() ? *next : left.front();
    }
    return std::nullopt;
  }

  // By the time that turns have taken so far.
  bool HasTimeFor(int turns) const {
    const double passed = bench_.now() - begin_;
    return turns_ == 0 || passed + turns * passed / turns_ <= limits_.seconds;
  }

  absl::Status Turn(const Settings& settings, Turns& turns) {
    MILLRACE_ASSIGN_OR_RETURN(const double rate, bench_.turn(settings));
    turns.Add(rate);
    ++turns_;
    if (seen_) seen_(bench_.now() - begin_);
    return absl::OkStatus();
  }

  // One round A B B A. Returns false if the changed settings do not run.
  absl::StatusOr<bool> Round(TriedChange& tried) {
    MILLRACE_RETURN_IF_ERROR(Turn(result_.settings, tried.turns_before));
    for (int i = 0; i < 2; ++i) {
      const absl::Status status = Turn(tried.settings, tried.turns);
      if (status.ok()) continue;
      tried.error = std::string(status.message());
      return false;
    }
    MILLRACE_RETURN_IF_ERROR(Turn(result_.settings, tried.turns_before));
    return true;
  }

  absl::Status Try(const Candidate& candidate) {
    TriedChange tried;
    tried.candidate = candidate;
    for (const Change& change : candidate) tried.before.push_back(ValueNow(change.setting));
    tried.settings = With(result_.settings, candidate);
    MILLRACE_ASSIGN_OR_RETURN(tried.outcome, Measure(tried));
    if (tried.outcome == Outcome::kKept) Keep(tried);
    if (tried.outcome == Outcome::kNoGain) without_gain_.push_back(tried.settings);
    result_.tried.push_back(std::move(tried));
    return absl::OkStatus();
  }

  absl::StatusOr<Outcome> Measure(TriedChange& tried) {
    const bool saves = IsSaving(tried.candidate);
    for (int round = 1; round <= kRounds; ++round) {
      MILLRACE_ASSIGN_OR_RETURN(const bool runs, Round(tried));
      if (!runs) return Outcome::kDidNotRun;
      tried.comparison = Compare(tried.turns_before, tried.turns);
      const bool is_sure = round >= 2;
      if (is_sure && IsFaster(tried.comparison)) return Outcome::kKept;
      if (is_sure && saves && IsEnough(tried)) return Outcome::kKept;
      if (!MayBeFaster(tried.comparison) && !(saves && MayBeEnough(tried))) {
        return Outcome::kNoGain;
      }
      if (!HasTimeFor(4)) break;
    }
    return Outcome::kUnclear;
  }

  // Less is enough if it meets the pace, or loses nothing.
  bool IsEnough(const TriedChange& tried) const {
    if (MeetsPace()) return tried.turns.best() >= kPaceRoom * limits_.pace;
    return IsAsFast(tried.comparison) && tried.comparison.gain >= -LossLeft();
  }

  bool MayBeEnough(const TriedChange& tried) const {
    if (!MeetsPace()) return MayBeAsFast(tried.comparison);
    return tried.turns.best() * (1 + 2 * tried.comparison.error) >= kPaceRoom * limits_.pace;
  }

  // The loss that may still be taken for less of something.
  double LossLeft() const { return kEqual - lost_; }

  void Keep(const TriedChange& tried) {
    kept_ = tried.candidate;
    kept_is_larger_ =
        std::ranges::any_of(kept_, [this](const Change& change) { return IsLarger(change); });
    lost_ += std::max(0.0, -tried.comparison.gain);
    result_.settings = tried.settings;
    result_.best = tried.turns;
  }

  const Defaults& defaults_;
  const TuneLimits& limits_;
  const TuneBench& bench_;
  const std::function<void(double)>& seen_;
  const double begin_;
  int turns_ = 0;
  TuneResult result_;
  Settings start_;
  std::vector<Settings> without_gain_;
  double lost_ = 0;  // by changes that save something, as a fraction
  Candidate kept_;   // the last one; empty: none
  bool kept_is_larger_ = false;
};

}  // namespace

absl::StatusOr<TuneResult> Tune(const Settings& start, const Defaults& defaults,
                                const TuneLimits& limits, const Candidates& candidates,
                                const TuneBench& bench, const std::function<void(double)>& seen) {
  return Search(start, defaults, limits, bench, seen).Run(candidates);
}

}  // namespace millrace::cli
