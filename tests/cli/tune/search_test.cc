#include "cli/tune/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace millrace::cli {
namespace {

constexpr Defaults kMachine = {.threads = 8, .ring = 2, .memory_budget_mib = 2048};

// A pipeline that is a formula, on a clock that only its turns move on.
struct Surface {
  std::function<double(const Settings&)> rate;
  TuneLimits limits = {.max_threads = 8, .max_memory_mib = 8192, .seconds = 1e6};
  double noise = 0;  // a turn is slower by as much, as a fraction, on average
  double drift = 0;  // and by as much more with each turn
  Settings start = {};
  unsigned seed = 1;

  TuneResult Find() const {
    double now = 0;
    std::mt19937 random(seed);
    const auto measured = [&](const Settings& settings) {
      double slow = drift * now;
      if (noise > 0) slow += std::exponential_distribution<double>(1 / noise)(random);
      now += 1;
      return rate(settings) / (1 + slow);
    };
    const auto candidates = [&](const Settings& settings, std::span<const Settings> without_gain) {
      return CandidateGroups{CandidatesInOrder(settings, kMachine, limits, without_gain)};
    };
    const TuneBench bench = {[&] { return now; }, measured};
    double last = 0;
    const auto found = Tune(start, kMachine, limits, candidates, bench, [&](double passed) {
      EXPECT_GE(passed, last);
      last = passed;
    });
    EXPECT_TRUE(found.ok()) << found.status();
    EXPECT_LE(last, limits.seconds + 1);
    return *found;
  }
};

double InUse(const Settings& settings, Setting setting) {
  return InEffect(settings, setting, kMachine);
}

TEST(TuneSearchTest, NothingIsChangedWhereNothingHelps) {
  const TuneResult flat =
      Surface{.rate = [](const Settings&) { return 100; }, .start = {.threads = 1}}.Find();
  EXPECT_EQ(flat.settings, (Settings{.threads = 1}));
  EXPECT_EQ(flat.end, TuneResult::End::kTriedAll);
  for (const TriedChange& tried : flat.tried) {
    EXPECT_EQ(tried.outcome, TriedChange::Outcome::kNoGain);
  }
}

TEST(TuneSearchTest, NoiseAndDriftAreNoGain) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    const TuneResult flat = Surface{.rate = [](const Settings&) { return 100; },
                                    .noise = 0.01,
                                    .drift = 1e-4,
                                    .start = {.threads = 1},
                                    .seed = seed}
                                .Find();
    EXPECT_EQ(flat.settings, (Settings{.threads = 1})) << seed;
  }
}

TEST(TuneSearchTest, AGainIsFoundInNoise) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const TuneResult found =
        Surface{.rate = [](const Settings& s) { return s.threads == 2 ? 120.0 : 100.0; },
                .noise = 0.05,
                .start = {.threads = 1},
                .seed = seed}
            .Find();
    EXPECT_EQ(found.settings.threads, 2) << seed;
  }
}

TEST(TuneSearchTest, WhatIsUnclearIsTriedAgain) {
  const TuneResult found = Surface{
      .rate = [](const Settings& s) { return 100 + 2 * s.threads; },
      .noise = 0.1,
      .start = {.threads = 1}}.Find();
  const auto tries = [&](const TriedChange& one) {
    return std::ranges::count(found.tried, one.settings, &TriedChange::settings);
  };
  EXPECT_TRUE(
      std::ranges::any_of(found.tried, [&](const TriedChange& one) { return tries(one) > 1; }));
  for (const TriedChange& one : found.tried) EXPECT_LE(tries(one), 3);
}

TEST(TuneSearchTest, FewerThreadsAreTakenWhereTheyAreAsFast) {
  const auto rate = [](const Settings& s) { return std::min(InUse(s, Setting::kThreads), 3.0); };
  EXPECT_EQ(Surface{.rate = rate}.Find().settings, (Settings{.threads = 3}));
}

TEST(TuneSearchTest, MoreIsTakenUpToTheLimit) {
  Surface surface = {.rate = [](const Settings& s) { return 10 * InUse(s, Setting::kThreads); },
                     .start = {.threads = 1}};
  EXPECT_EQ(surface.Find().settings, (Settings{.threads = 8}));
  surface.limits.max_threads = 5;
  EXPECT_EQ(surface.Find().settings, (Settings{.threads = 5}));
  surface.rate = [](const Settings& s) { return 1.0 + InUse(s, Setting::kMemory); };
  EXPECT_EQ(surface.Find().settings.memory_budget_mib, 8192);
}

// Exhaustive search over all numbers of threads and lengths of a run is the oracle.
TEST(TuneSearchTest, APeakIsFoundWithinTwoPercent) {
  for (const double noise : {0.0, 0.005}) {
    for (int peak = 1; peak <= 8; ++peak) {
      const auto rate = [peak](const Settings& s) {
        const double threads = InUse(s, Setting::kThreads);
        const double run = std::log2(InUse(s, Setting::kRun) / 200);
        return 1000 / (1 + 0.05 * std::abs(threads - peak) + 0.02 * run * run);
      };
      const TuneResult found =
          Surface{.rate = rate, .noise = noise, .start = {.threads = 4}}.Find();
      EXPECT_GE(rate(found.settings), 0.98 * 1000)
          << peak << " " << found.settings.threads << " " << found.settings.run_us;
    }
  }
}

// The more of the one there is, the more the other helps.
TEST(TuneSearchTest, SettingsThatHelpOneAnotherAreFound) {
  const auto rate = [](const Settings& s) {
    return 100 / (1 / InUse(s, Setting::kThreads) + 4 / InUse(s, Setting::kIoThreads));
  };
  const TuneResult found = Surface{.rate = rate, .start = {.threads = 1, .io_threads = 2}}.Find();
  EXPECT_EQ(found.settings.threads, 8);
  EXPECT_GE(found.settings.io_threads, 128);
}

// Everything would help.
TEST(TuneSearchTest, OfAJobAloneOnlyItsOwnFieldsAreTried) {
  Surface surface = {.rate =
                         [](const Settings& s) {
                           double rate = 1;
                           for (const Setting setting : kSettings) rate *= InUse(s, setting);
                           return rate;
                         },
                     .start = {.threads = 1}};
  surface.limits.job_fields_only = true;
  const TuneResult found = surface.Find();
  EXPECT_EQ(found.settings, (Settings{.threads = 8, .memory_budget_mib = 8192}));
  for (const TriedChange& tried : found.tried) {
    for (const Change& change : tried.candidate) EXPECT_NE(JobFieldOf(change.setting), "");
  }
}

TEST(TuneSearchTest, AChangeTellsHowItWasMeasured) {
  const auto rate = [](const Settings& s) { return s.threads == 2 ? 150.0 : 100.0; };
  Surface surface = {.rate = rate, .start = {.threads = 1}};
  surface.limits.max_threads = 2;
  const TuneResult found = surface.Find();
  ASSERT_FALSE(found.tried.empty());
  const TriedChange& first = found.tried.front();
  EXPECT_EQ(first.candidate, (Candidate{{Setting::kThreads, 2}}));
  EXPECT_EQ(first.before, std::vector<int>{1});
  EXPECT_EQ(first.outcome, TriedChange::Outcome::kKept);
  EXPECT_EQ(first.turns.size(), 4);
  EXPECT_EQ(first.turns_before.size(), 4);
  EXPECT_NEAR(first.comparison.gain, 0.5, 1e-9);
  EXPECT_EQ(found.start.best(), 100);
  EXPECT_EQ(found.best.best(), 150);
}

TEST(TuneSearchTest, ThePaceIsMetWithTheFewestThreads) {
  const auto rate = [](const Settings& s) { return 100 * InUse(s, Setting::kThreads); };
  for (const int start : {1, 8}) {
    Surface surface = {.rate = rate, .start = {.threads = start}};
    surface.limits.pace = 450;
    const TuneResult found = surface.Find();
    EXPECT_EQ(found.settings, (Settings{.threads = 5})) << start;
    EXPECT_EQ(found.end, TuneResult::End::kPace);
    surface.limits.pace = 1000;
    EXPECT_EQ(surface.Find().end, TuneResult::End::kTriedAll);
  }
}

TEST(TuneSearchTest, TheTimeIsKept) {
  Surface surface = {.rate = [](const Settings& s) { return 10 * InUse(s, Setting::kThreads); },
                     .start = {.threads = 1}};
  surface.limits.seconds = 25;
  const TuneResult found = surface.Find();
  EXPECT_EQ(found.end, TuneResult::End::kTime);
  EXPECT_GT(found.settings.threads, 1);
  surface.limits.seconds = 3;
  EXPECT_TRUE(surface.Find().tried.empty());
}

TEST(TuneSearchTest, SettingsThatDoNotRunAreLeft) {
  const TuneLimits limits = {.max_threads = 4, .max_memory_mib = 2048, .seconds = 1e6};
  const auto candidates = [&](const Settings& now, std::span<const Settings> without_gain) {
    return CandidateGroups{CandidatesInOrder(now, kMachine, limits, without_gain)};
  };
  double now = 0;
  const TuneBench bench = {[&] { return now++; },
                           [](const Settings& settings) -> absl::StatusOr<double> {
                             if (settings.threads > 2) return absl::ResourceExhaustedError("none");
                             return settings.threads;
                           }};
  const auto found = Tune({.threads = 1}, kMachine, limits, candidates, bench, {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->settings, (Settings{.threads = 2}));
  EXPECT_TRUE(std::ranges::any_of(found->tried, [](const TriedChange& tried) {
    return tried.outcome == TriedChange::Outcome::kDidNotRun && tried.error == "none";
  }));
  EXPECT_FALSE(Tune({.threads = 3}, kMachine, limits, candidates, bench, {}).ok());
}

// Reads and memory bind alike: neither helps alone.
TEST(TuneSearchTest, SettingsThatHelpOnlyTogetherAreFoundAndNoOthersAreRaised) {
  const auto rate = [](const Settings& s) {
    return std::min({InUse(s, Setting::kIoThreads) / 4, InUse(s, Setting::kMemory) / 64, 8.0});
  };
  const TuneResult found =
      Surface{.rate = rate, .start = {.threads = 1, .memory_budget_mib = 64, .io_threads = 4}}
          .Find();
  EXPECT_EQ(found.settings.io_threads, 32);
  EXPECT_EQ(found.settings.memory_budget_mib, 512);
  EXPECT_EQ(InUse(found.settings, Setting::kRing), 2);
  EXPECT_EQ(InUse(found.settings, Setting::kReadAhead), 10);
}

TEST(TuneCandidatesTest, TheyStayInTheLimits) {
  const TuneLimits limits = {.max_threads = 3, .max_memory_mib = 4096};
  for (const Candidate& candidate : CandidatesInOrder({}, kMachine, limits, {})) {
    for (const Change& change : candidate) {
      EXPECT_GE(change.value, 1);
      EXPECT_LE(change.value, MostOf(change.setting));
      EXPECT_TRUE(change.setting != Setting::kThreads || change.value <= 4);  // half of the cores
      EXPECT_TRUE(change.setting != Setting::kMemory || change.value <= 4096);
    }
  }
}

TEST(TuneCandidatesTest, WhereNothingAheadBindsItIsNotTriedOneByOne) {
  const TuneLimits limits = {.max_threads = 3, .max_memory_mib = 4096};
  const Settings now = {.threads = 2};
  const auto all = CandidatesInOrder(now, kMachine, limits, {});
  const auto together = std::ranges::find_if(all, [](const Candidate& c) { return c.size() > 1; });
  ASSERT_NE(together, all.end());
  const std::vector<Settings> tried = {With(now, *together)};
  const auto left = CandidatesInOrder(now, kMachine, limits, tried);
  const auto raises_io = [](const Candidate& candidate) {
    return candidate.size() == 1 && candidate[0].setting == Setting::kIoThreads &&
           candidate[0].value > 4;
  };
  EXPECT_TRUE(std::ranges::any_of(all, raises_io));
  EXPECT_TRUE(std::ranges::none_of(left, raises_io));
}

TEST(TuneComparisonTest, NoiseIsTheUncertaintyOfTheMean) {
  Turns before;
  Turns after;
  // The machine was half as fast in the second pair: that is no noise.
  for (const double rate : {100.0, 50.0}) before.Add(rate);
  for (const double rate : {110.0, 55.0}) after.Add(rate);
  EXPECT_NEAR(Compare(before, after).gain, 0.1, 1e-9);
  EXPECT_NEAR(Compare(before, after).noise, 0, 1e-6);
  EXPECT_TRUE(IsFaster(Compare(before, after)));
  // One turn that was disturbed leaves the gain open.
  before.Add(100);
  after.Add(60);
  EXPECT_FALSE(IsFaster(Compare(before, after)));
  EXPECT_TRUE(MayBeFaster(Compare(before, after)));
  EXPECT_FALSE(IsAsFast(Compare(before, after)));
}

}  // namespace
}  // namespace millrace::cli
