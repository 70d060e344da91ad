#include "base/nearest_name.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The definition, by recursion over the last letters.
size_t SlowDistance(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  const auto cut = [](std::string_view text, size_t n) { return text.substr(0, text.size() - n); };
  const size_t replace = SlowDistance(cut(a, 1), cut(b, 1)) + (a.back() == b.back() ? 0 : 1);
  size_t best = std::min({replace, SlowDistance(cut(a, 1), b) + 1, SlowDistance(a, cut(b, 1)) + 1});
  const bool swapped =
      a.size() > 1 && b.size() > 1 && a.back() == b[b.size() - 2] && a[a.size() - 2] == b.back();
  if (swapped) best = std::min(best, SlowDistance(cut(a, 2), cut(b, 2)) + 1);
  return best;
}

TEST(NearestNameTest, DistanceIsThatOfTheDefinition) {
  std::vector<std::string> words = {""};  // all of up to four letters a, b, c
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    for (const char c : {'a', 'b', 'c'}) {
      if (word.size() < 4) words.push_back(word + c);
    }
  }
  ASSERT_EQ(words.size(), 1u + 3 + 9 + 27 + 81);
  for (const std::string& a : words) {
    for (const std::string& b : words) ASSERT_EQ(EditDistance(a, b), SlowDistance(a, b)) << a << b;
  }
}

TEST(NearestNameTest, LetterCaseIsIgnored) { EXPECT_EQ(EditDistance("Float", "FLAOT"), 1u); }

TEST(NearestNameTest, NearestComeFirstAndEqualsInTheirOrder) {
  const std::vector<std::string> names = {"b", "seeds", "sed", "seed", "need"};
  EXPECT_THAT(NearestNames("seeed", names, 10), ElementsAre("seed"));
  EXPECT_THAT(NearestNames("seedxx", names, 10), ElementsAre("seeds", "seed"));
  EXPECT_THAT(NearestNames("see", names, 2), ElementsAre("sed", "seed"));
  EXPECT_EQ(NearestName("seeed", names), "seed");
}

TEST(NearestNameTest, WhatIsFartherThanAThirdIsNotNear) {
  const std::vector<std::string> names = {"abcdef", "x"};
  EXPECT_EQ(NearestName("abcdyy", names), "abcdef");
  EXPECT_EQ(NearestName("abcyyy", names), "");
  EXPECT_EQ(NearestName("xy", names), "x");  // one edit is always near
  EXPECT_EQ(NearestName("y", names), "");    // unless nothing is left
  EXPECT_EQ(NearestName("X", names), "x");
}

TEST(NearestNameTest, HugeNamesAreNotCompared) {
  const std::string huge(10'000'000, 'a');
  EXPECT_THAT(NearestNames(huge, std::vector<std::string>{huge, "a"}, 3), IsEmpty());
  EXPECT_EQ(NearestName("a", std::vector<std::string>{huge}), "");
}

TEST(NearestNameTest, SuggestionsFallBackToTheFirstCandidates) {
  EXPECT_EQ(DidYouMean("gzp", std::vector<std::string>{"none", "gzip"}),
            "; did you mean \"gzip\"?");
  EXPECT_EQ(DidYouMean("lz4x", std::vector<std::string>{"none", "gzip"}), "; there is: none, gzip");
  EXPECT_EQ(DidYouMean("x", {}), "");
  const std::string many = DidYouMean("x", std::vector<std::string>(25, "name"));
  EXPECT_EQ(std::ranges::count(many, ','), 24);
  EXPECT_TRUE(many.ends_with(", ..."));
}

}  // namespace
}  // namespace millrace
