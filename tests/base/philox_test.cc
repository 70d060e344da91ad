#include "base/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace millrace {
namespace {

using testing::ElementsAre;

// Random123's kat_vectors, "philox4x32 10".
TEST(Philox, PublishedKnownAnswers) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_THAT(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

// FNV-1a and SplitMix64's finaliser, computed apart from this code in Python.
TEST(Philox, HashNameIsStableForEver) {
  EXPECT_EQ(HashName(""), 0xf52a15e9a9b5e89bu);
  EXPECT_EQ(HashName("a"), 0x02c0bdbf481420f8u);
  EXPECT_EQ(HashName("foobar"), 0x404da9e3b74078c2u);
  EXPECT_EQ(HashName("flip"), 0x5230525c4f0695adu);
}

// The same: resumed and replayed streams depend on these words staying as they are.
// S-RANDOM-1.
TEST(RandomStream, WordsOfAKeyAreStableForEver) {
  RandomStream stream({.seed = 7,
                       .op = HashName("flip"),
                       .epoch = 3,
                       .record = (uint64_t{5} << 32) + 11,
                       .sub_index = 2});
  std::vector<uint32_t> words(8);
  for (uint32_t& word : words) word = stream.NextU32();
  EXPECT_THAT(words, ElementsAre(0x878af468, 0x5894ba40, 0x1310d023, 0xcbe55b7b, 0x9c27c23c,
                                 0x5d3b6cc1, 0x581fc116, 0xcbbca874));
}

// S-RANDOM-1.
TEST(RandomStream, EveryPartOfTheKeyMakesAnotherStream) {
  const RandomKey base{.seed = 1, .op = 2, .epoch = 3, .record = 4, .sub_index = 5};
  std::vector<RandomKey> keys = {base};
  for (uint64_t step : {uint64_t{1}, uint64_t{1} << 8, uint64_t{1} << 31}) {
    RandomKey key = base;
    key.seed += step;
    keys.push_back(key);
    key = base;
    key.op += step;
    keys.push_back(key);
    key = base;
    key.epoch += step;
    keys.push_back(key);
    key = base;
    key.record += step;
    keys.push_back(key);
  }
  for (uint32_t sub_index : {0u, 1u, 4u, 6u, 0xffffu}) {
    RandomKey key = base;
    key.sub_index = sub_index;
    keys.push_back(key);
  }
  RandomKey far = base;
  far.record = (uint64_t{1} << 47) + 4;
  keys.push_back(far);

  std::set<uint64_t> first_words;
  for (const RandomKey& key : keys) first_words.insert(RandomStream(key).NextU64());
  EXPECT_EQ(first_words.size(), keys.size());
}

TEST(RandomStream, NeighbouringRecordsHaveDistinctWords) {
  std::set<uint64_t> words;
  for (uint64_t record = 0; record < 2000; ++record) {
    RandomStream stream({.seed = 9, .op = HashName("crop"), .record = record});
    for (int draw = 0; draw < 4; ++draw) words.insert(stream.NextU64());
  }
  EXPECT_EQ(words.size(), 8000u);
}

TEST(RandomStream, U64IsTwoWordsLowFirst) {
  RandomStream words({.seed = 3}), doubles({.seed = 3});
  for (int i = 0; i < 9; ++i) {
    const uint64_t low = words.NextU32();
    const uint64_t high = words.NextU32();
    EXPECT_EQ(doubles.NextU64(), low | (high << 32));
  }
}

TEST(RandomStream, FloatsLieInTheHalfOpenUnitIntervalWithTheRightMean) {
  RandomStream stream({.seed = 11});
  constexpr int kDraws = 100'000;
  double sum_float = 0, sum_double = 0;
  for (int i = 0; i < kDraws; ++i) {
    const float f = stream.NextFloat();
    const double d = stream.NextDouble();
    ASSERT_GE(f, 0.0f);
    ASSERT_LT(f, 1.0f);
    ASSERT_GE(d, 0.0);
    ASSERT_LT(d, 1.0);
    sum_float += f;
    sum_double += d;
  }
  // Five standard deviations of a mean of uniforms.
  const double allowed = 5 * std::sqrt(1.0 / 12 / kDraws);
  EXPECT_NEAR(sum_float / kDraws, 0.5, allowed);
  EXPECT_NEAR(sum_double / kDraws, 0.5, allowed);
}

// Chi-square against the uniform distribution; the limit is the mean plus six standard deviations
// of the chi-square distribution with bound - 1 degrees of freedom.
TEST(RandomStream, BelowIsUniform) {
  for (const uint64_t bound : {2u, 3u, 7u, 10u, 64u, 100u, 1000u}) {
    RandomStream stream({.seed = 5, .op = bound});
    const int draws = static_cast<int>(bound) * 200;
    std::vector<int> counts(bound);
    for (int i = 0; i < draws; ++i) {
      const uint64_t value = stream.Below(bound);
      ASSERT_LT(value, bound);
      ++counts[value];
    }
    double chi_square = 0;
    for (int count : counts) chi_square += (count - 200.0) * (count - 200.0) / 200.0;
    const double freedom = static_cast<double>(bound - 1);
    EXPECT_LT(chi_square, freedom + 6 * std::sqrt(2 * freedom)) << "bound " << bound;
  }
}

TEST(RandomStream, BelowOneIsZeroAndHugeBoundsStayInside) {
  RandomStream stream({.seed = 1});
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(stream.Below(1), 0u);
    EXPECT_LT(stream.Below(~uint64_t{0}), ~uint64_t{0});
  }
}

// With the bound 3 * 2^62 a plain remainder would give values below 2^62 twice as often as others:
// half of all draws. Rejection gives them a third.
TEST(RandomStream, BelowRejectsTheBiasedTail) {
  RandomStream stream({.seed = 2});
  constexpr uint64_t kThird = uint64_t{1} << 62;
  constexpr int kDraws = 30'000;
  int low = 0;
  for (int i = 0; i < kDraws; ++i) low += stream.Below(3 * kThird) < kThird ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(low) / kDraws, 1.0 / 3, 0.02);
}

}  // namespace
}  // namespace millrace
