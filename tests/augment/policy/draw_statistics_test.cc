#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/augment/policy/draw_probes.h"

// What every op that draws has to be: a sample of its distribution that knows nothing of the
// samples around it, of other epochs and of other stages. Bounds are five standard deviations, and
// a test below shows that each of them catches the mistake that it is there for.

namespace millrace::augment {
namespace {

using testing::Expected;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Probe;
using testing::Series;

struct Drawn {
  Series epoch_0, epoch_1, other_stage;
};

struct Sampled {
  std::string name;
  Expected expected;
  Drawn drawn;
};

Sampled Sample(const Probe& probe) {
  return {probe.name,
          probe.expected,
          {probe.draw("stage", 0, false), probe.draw("stage", 1, false),
           probe.draw("stage_2", 0, false)}};
}

// Of every op; drawn once.
const std::vector<Sampled>& AllSampled() {
  static const auto* const all = [] {
    auto* const sampled = new std::vector<Sampled>();
    for (const Probe& probe : testing::Probes()) sampled->push_back(Sample(probe));
    return sampled;
  }();
  return *all;
}

// --- checks ---

double Mean(const Series& series) {
  double sum = 0;
  for (const double value : series) sum += value;
  return sum / static_cast<double>(series.size());
}

// The mean of (value - mean)^power.
double Moment(const Series& series, int power) {
  const double mean = Mean(series);
  Series powers;
  for (const double value : series) powers.push_back(std::pow(value - mean, power));
  return Mean(powers);
}

double Correlation(const Series& a, const Series& b) {
  const double mean_a = Mean(a), mean_b = Mean(b);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean_a) * (b[i] - mean_b);
  return sum / static_cast<double>(a.size()) / std::sqrt(Moment(a, 2) * Moment(b, 2));
}

// What is wrong, by name.
std::vector<std::string> Faults(const Drawn& drawn, const Expected& expected) {
  std::vector<std::string> faults;
  const Series& series = drawn.epoch_0;
  const auto n = static_cast<double>(series.size());
  const auto check = [&](const char* what, double value, double target, double bound) {
    if (std::abs(value - target) <= bound) return;
    faults.push_back(absl::StrCat(what, " is ", value, ", expected ", target, " +- ", bound));
  };
  const auto [least, most] = std::ranges::minmax_element(series);
  const double reach = 0.05 * (expected.high - expected.low) + expected.slack;
  const bool in_range =
      *least >= expected.low - expected.slack && *most <= expected.high + expected.slack;
  if (!in_range || *least > expected.low + reach || *most < expected.high - reach) {
    faults.push_back(absl::StrCat("range is [", *least, ", ", *most, "]"));
  }
  const double variance = Moment(series, 2);
  // Rounding to pixels moves a mean by less than the largest rounding, and is no part of a sample's
  // error.
  check("mean", Mean(series), expected.mean, 5 * std::sqrt(variance / n) + expected.slack / 4);
  check("variance", variance, expected.variance,
        5 * std::sqrt((Moment(series, 4) - variance * variance) / n) +
            expected.slack * std::sqrt(expected.variance) / 4);
  const double chance = 5 / std::sqrt(n);
  for (const size_t lag : {1, 2, 16}) {
    check("correlation with a neighbour",
          Correlation({series.begin(), series.end() - static_cast<ptrdiff_t>(lag)},
                      {series.begin() + static_cast<ptrdiff_t>(lag), series.end()}),
          0, chance);
  }
  Series places;
  for (size_t i = 0; i < series.size(); ++i) places.push_back(static_cast<double>(i));
  check("correlation with the place", Correlation(series, places), 0, chance);
  check("correlation between epochs", Correlation(series, drawn.epoch_1), 0, chance);
  check("correlation between stages", Correlation(series, drawn.other_stage), 0, chance);
  return faults;
}

// S-RANDOM-1.
TEST(DrawStatistics, EveryOpDrawsItsDistributionAndNothingElse) {
  for (const Sampled& one : AllSampled()) {
    EXPECT_THAT(Faults(one.drawn, one.expected), IsEmpty()) << one.name;
  }
}
// S-RANDOM-1: where a record stands in the stream, and what comes before it, has no say.
TEST(DrawStatistics, EveryOpDrawsByTheRecordAndNotByItsPlace) {
  std::vector<Probe> probes = testing::Probes();
  std::erase_if(probes, [](const Probe& probe) { return !probe.through_op; });
  EXPECT_GT(probes.size(), 20u);
  for (Probe& probe : testing::PolicyProbes()) probes.push_back(std::move(probe));
  for (const Probe& probe : probes) {
    const Series series = probe.draw("stage", 0, false);
    EXPECT_EQ(probe.draw("stage", 0, true), series) << probe.name;
    EXPECT_GT(Moment(series, 2), 0) << probe.name;  // so that an order would show
  }
}

// --- mistakes that must be seen ---

std::string FaultsOf(const Drawn& drawn, const Expected& expected) {
  std::string text;
  for (const std::string& fault : Faults(drawn, expected)) absl::StrAppend(&text, fault, "\n");
  return text;
}

// One mistake in what each op has drawn.
void EveryProbeShows(const std::string& what,
                     const std::function<void(Drawn&, double sd)>& break_it) {
  for (const Sampled& one : AllSampled()) {
    Drawn drawn = one.drawn;
    break_it(drawn, std::sqrt(Moment(drawn.epoch_0, 2)));
    EXPECT_THAT(FaultsOf(drawn, one.expected), HasSubstr(what)) << one.name;
  }
}

TEST(DrawStatistics, AShiftedMeanIsSeen) {
  EveryProbeShows("mean is", [](Drawn& drawn, double sd) {
    for (double& value : drawn.epoch_0) value += 0.25 * sd;
  });
}

TEST(DrawStatistics, ANarrowDistributionIsSeen) {
  EveryProbeShows("variance is", [](Drawn& drawn, double) {
    const double mean = Mean(drawn.epoch_0);
    for (double& value : drawn.epoch_0) value = mean + 0.7 * (value - mean);
  });
}

TEST(DrawStatistics, ValuesOutOfRangeAreSeen) {
  EveryProbeShows("range is", [](Drawn& drawn, double) {
    const auto [least, most] = std::ranges::minmax_element(drawn.epoch_0);
    drawn.epoch_0[7] = *most + (*most - *least);
  });
}

TEST(DrawStatistics, WordsSharedWithNeighboursAreSeen) {
  EveryProbeShows("neighbour", [](Drawn& drawn, double) {
    for (size_t i = 1; i < drawn.epoch_0.size(); i += 8) drawn.epoch_0[i] = drawn.epoch_0[i - 1];
  });
}

TEST(DrawStatistics, ATrendAlongTheStreamIsSeen) {
  EveryProbeShows("the place", [](Drawn& drawn, double sd) {
    for (size_t i = 0; i < drawn.epoch_0.size(); ++i) {
      drawn.epoch_0[i] += 0.5 * sd * static_cast<double>(i) / testing::kProbedRecords;
    }
  });
}

TEST(DrawStatistics, WordsSharedBetweenEpochsAreSeen) {
  EveryProbeShows("between epochs", [](Drawn& drawn, double) {
    for (size_t i = 0; i < drawn.epoch_0.size(); i += 8) drawn.epoch_1[i] = drawn.epoch_0[i];
  });
}

TEST(DrawStatistics, WordsSharedBetweenStagesAreSeen) {
  EveryProbeShows("between stages", [](Drawn& drawn, double) {
    for (size_t i = 0; i < drawn.epoch_0.size(); i += 8) drawn.other_stage[i] = drawn.epoch_0[i];
  });
}

// The well-known mistake: a remainder of words whose number 14 does not divide.
TEST(DrawStatistics, ABiasedRemainderIsSeen) {
  const Sampled biased =
      Sample(testing::FromWords("remainder", testing::Integers(0, 13), [](RandomStream& random) {
        return static_cast<double>(random.NextU32() % 16 % 14);
      }));
  EXPECT_THAT(FaultsOf(biased.drawn, biased.expected), HasSubstr("mean is"));
}

}  // namespace
}  // namespace millrace::augment
