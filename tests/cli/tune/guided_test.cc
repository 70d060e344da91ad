#include "cli/tune/guided.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace millrace::cli {
namespace {

using pipeline::Diagnosis;
using pipeline::Limit;
using pipeline::WhatIf;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAreArray;

constexpr Defaults kEightCores = {.threads = 8, .ring = 2, .memory_budget_mib = 512};
constexpr TuneLimits kLimits = {.max_threads = 8, .max_memory_mib = 4096, .seconds = 1e6};
constexpr Settings kNow = {.threads = 2, .prefetch_batches = 4};

struct Prediction {
  WhatIf::Kind kind;
  double gain;
  bool at_least = false;
};

Diagnosis BoundBy(std::vector<Limit> binding, const std::vector<Prediction>& predictions = {}) {
  Diagnosis diagnosis;
  diagnosis.binding = std::move(binding);
  for (const Prediction& prediction : predictions) {
    WhatIf what_if;
    what_if.kind = prediction.kind;
    what_if.gain = prediction.gain;
    what_if.at_least = prediction.at_least;
    diagnosis.what_ifs.push_back(what_if);
  }
  return diagnosis;
}

// `own`: the part of the work that is the executor's own.
Diagnosis BoundByWorkers(double own = 0.1) {
  Diagnosis diagnosis =
      BoundBy({Limit::kWorkers}, {{WhatIf::Kind::kThreads, 0.4}, {WhatIf::Kind::kThreads, 0.84}});
  diagnosis.parts.resize(2);
  diagnosis.parts[0].is_op = true;
  diagnosis.parts[0].share = 1 - own;
  diagnosis.parts[1].share = own;
  return diagnosis;
}

CandidateGroups Groups(const Diagnosis& diagnosis, const Settings& now = kNow) {
  return InGuidedOrder(CandidatesInOrder(now, kEightCores, kLimits, {}), now, kEightCores,
                       diagnosis);
}

// The settings of the candidates that come first, each once, as far as one of them is `last`.
std::vector<Setting> SettingsUpTo(const std::vector<Candidate>& candidates, Setting last) {
  std::vector<Setting> settings;
  for (const Candidate& candidate : candidates) {
    const Setting setting = candidate[0].setting;
    if (settings.empty() || settings.back() != setting) settings.push_back(setting);
    if (setting == last) break;
  }
  return settings;
}

TEST(GuidedTest, EachLimitHasItsSettings) {
  EXPECT_THAT(SettingsFirst(BoundByWorkers()), ElementsAre(Setting::kThreads, Setting::kRun));
  EXPECT_THAT(SettingsFirst(BoundBy({Limit::kReading})),
              ElementsAre(Setting::kIoThreads, Setting::kReadAhead, Setting::kRing));
  EXPECT_THAT(SettingsFirst(BoundBy({Limit::kBudget}, {{WhatIf::Kind::kLargerBudget, 1.0}})),
              ElementsAre(Setting::kMemory));
  EXPECT_THAT(SettingsFirst(BoundBy({Limit::kRing})), ElementsAre(Setting::kRing));
  EXPECT_THAT(SettingsFirst(BoundBy({Limit::kSerial})), ElementsAre(Setting::kRun));
  for (const Limit limit : {Limit::kConsumer, Limit::kHandOff, Limit::kStart}) {
    EXPECT_THAT(SettingsFirst(BoundBy({limit})), ElementsAre(Setting::kRing, Setting::kRun));
  }
  EXPECT_THAT(SettingsFirst(BoundBy({Limit::kSource})), IsEmpty());
}

TEST(GuidedTest, ThreadsComeFirstOnlyWhileThereAreCores) {
  const Diagnosis no_cores = BoundBy({Limit::kWorkers}, {{WhatIf::Kind::kMoreCores, 0.5}});
  EXPECT_THAT(SettingsFirst(no_cores), IsEmpty());
  const Diagnosis others_have_them = BoundBy({Limit::kWorkers}, {{WhatIf::Kind::kThreads, 0.02}});
  EXPECT_THAT(SettingsFirst(others_have_them), IsEmpty());
}

TEST(GuidedTest, LongerRunsComeFirstOnlyIfTheExecutorTakesWhatTheyMaySave) {
  EXPECT_THAT(SettingsFirst(BoundByWorkers(0.01)), ElementsAre(Setting::kThreads));
  const Candidate longer = {{Setting::kRun, 200}};
  const Candidate shorter = {{Setting::kRun, 25}};
  EXPECT_THAT(Groups(BoundByWorkers(0.01))[1], AllOf(Contains(longer), Contains(shorter)));
  EXPECT_THAT(Groups(BoundByWorkers(0.1))[0], AllOf(Contains(longer), Not(Contains(shorter))));
  EXPECT_THAT(Groups(BoundBy({Limit::kSerial}))[0], AllOf(Contains(longer), Contains(shorter)));
}

TEST(GuidedTest, MemoryComesFirstOnlyIfItIsPredictedToHelp) {
  const auto first = [](double gain, bool at_least) {
    return SettingsFirst(
        BoundBy({Limit::kBudget}, {{WhatIf::Kind::kLargerBudget, gain, at_least}}));
  };
  EXPECT_THAT(first(0.0, false), IsEmpty());
  EXPECT_THAT(first(0.0, true), ElementsAre(Setting::kMemory));
}

TEST(GuidedTest, TwoLimitsNameTheSettingsOfBothAndPredictedGainsFollow) {
  const Diagnosis diagnosis =
      BoundBy({Limit::kReading, Limit::kHandOff},
              {{WhatIf::Kind::kThreads, 0.01}, {WhatIf::Kind::kLargerBudget, 0.05}});
  EXPECT_THAT(SettingsFirst(diagnosis),
              ElementsAre(Setting::kIoThreads, Setting::kReadAhead, Setting::kRing, Setting::kRun,
                          Setting::kMemory));
}

TEST(GuidedTest, NoCandidateIsLeftOut) {
  const std::vector<Candidate> all = CandidatesInOrder(kNow, kEightCores, kLimits, {});
  for (size_t i = 0; i < pipeline::kNumLimits; ++i) {
    std::vector<Candidate> sorted;
    for (const auto& group : Groups(BoundBy({static_cast<Limit>(i)}))) {
      sorted.insert(sorted.end(), group.begin(), group.end());
    }
    EXPECT_THAT(sorted, UnorderedElementsAreArray(all)) << i;
  }
}

TEST(GuidedTest, TheNamedSettingsComeFirstAndTogetherBehindThem) {
  const CandidateGroups groups = Groups(BoundBy({Limit::kReading}));
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_THAT(SettingsUpTo(groups[0], Setting::kRing),
              ElementsAre(Setting::kIoThreads, Setting::kReadAhead, Setting::kRing));
  const auto together =
      std::ranges::find_if(groups[0], [](const Candidate& one) { return one.size() > 1; });
  ASSERT_NE(together, groups[0].end());
  const auto run = std::ranges::find_if(
      groups[0], [](const Candidate& one) { return one[0].setting == Setting::kRun; });
  EXPECT_LT(together, run);
}

TEST(GuidedTest, WhatIsPredictedToGainNothingIsInTheLastGroup) {
  const CandidateGroups groups = Groups(BoundByWorkers());
  EXPECT_EQ(groups[0].front(), (Candidate{{Setting::kThreads, 4}}));
  for (const Candidate& candidate : groups[1]) {
    for (const Change& change : candidate) {
      const bool is_larger = change.value > InEffect(kNow, change.setting, kEightCores);
      const bool is_work = change.setting == Setting::kThreads || change.setting == Setting::kRun;
      EXPECT_NE(is_larger, is_work) << FieldOf(change.setting);
    }
  }
  EXPECT_THAT(groups[1], Not(IsEmpty()));
}

TEST(GuidedTest, FewerThreadsAreWorthATrialUnlessTheyBind) {
  const Candidate fewer = {{Setting::kThreads, 1}};
  EXPECT_THAT(Groups(BoundBy({Limit::kReading}))[0], Contains(fewer));
  EXPECT_THAT(Groups(BoundByWorkers())[1], Contains(fewer));
}

TEST(GuidedTest, WithoutADiagnosisTheOrderStays) {
  EXPECT_THAT(Groups(Diagnosis{}), ElementsAre(CandidatesInOrder(kNow, kEightCores, kLimits, {})));
}

TEST(GuidedTest, OneLineSaysWhatBindsAndWhatComesFirst) {
  EXPECT_EQ(GuidanceText(BoundByWorkers()),
            "bound by worker CPU: threads (about +84 %), run_us first");
  EXPECT_EQ(GuidanceText(BoundBy({Limit::kWorkers})),
            "bound by worker CPU, which no setting lifts");
  EXPECT_EQ(GuidanceText(BoundBy({Limit::kReading, Limit::kRing})),
            "bound by reading and ring: io_threads, read_ahead_runs, prefetch first");
  EXPECT_EQ(GuidanceText(BoundBy({Limit::kSource})), "bound by source, which no setting lifts");
  EXPECT_EQ(GuidanceText(Diagnosis{}), "too little was delivered to know what binds");
  EXPECT_EQ(GuidanceText(BoundByWorkers(), /*job_fields_only=*/true),
            "bound by worker CPU: threads (about +84 %) first");
  EXPECT_EQ(GuidanceText(BoundBy({Limit::kReading}), /*job_fields_only=*/true),
            "bound by reading, which no setting of the job lifts");
}

// A pipeline whose rate is the least of what its settings allow, and its diagnosis.
struct MadePipeline {
  static double Allows(const Settings& settings, Limit limit) {
    if (limit == Limit::kBudget) return InEffect(settings, Setting::kMemory, kEightCores) / 5.0;
    return 100.0 * InEffect(settings, Setting::kThreads, kEightCores);
  }
  static double Rate(const Settings& settings) {
    return std::min({Allows(settings, Limit::kBudget), Allows(settings, Limit::kWorkers), 400.0});
  }
  static Diagnosis Of(const Settings& settings) {
    const bool by_budget = Allows(settings, Limit::kBudget) < Allows(settings, Limit::kWorkers);
    if (Rate(settings) >= 400) return BoundBy({Limit::kConsumer});
    return by_budget ? BoundBy({Limit::kBudget}, {{WhatIf::Kind::kLargerBudget, 1.0}})
                     : BoundBy({Limit::kWorkers}, {{WhatIf::Kind::kThreads, 1.0}});
  }
};

TEST(GuidedTest, EachTrialMovesWhatBindsThen) {
  TuneLimits limits = kLimits;
  limits.seconds = 22;  // four turns, and two trials of eight
  double now = 0;
  const TuneBench bench = {[&] { return now; },
                           [&](const Settings& settings) {
                             now += 1;
                             return MadePipeline::Rate(settings);
                           }};
  const auto candidates = [&](const Settings& settings, std::span<const Settings> without_gain) {
    return InGuidedOrder(CandidatesInOrder(settings, kEightCores, limits, without_gain), settings,
                         kEightCores, MadePipeline::Of(settings));
  };
  const auto found = Tune({.threads = 2}, kEightCores, limits, candidates, bench, {});
  ASSERT_TRUE(found.ok()) << found.status();
  std::vector<Candidate> tried;
  for (const TriedChange& one : found->tried) tried.push_back(one.candidate);
  EXPECT_THAT(tried,
              ElementsAre(Candidate{{Setting::kMemory, 2048}}, Candidate{{Setting::kThreads, 4}}));
  EXPECT_EQ(found->best.best(), 400);
}

}  // namespace
}  // namespace millrace::cli
