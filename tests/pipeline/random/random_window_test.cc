#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/pipeline/random/plan_worlds.h"
#include "tests/pipeline/random/random_plan.h"

// A window in plans that nobody thought of: those of random_plan.h that have no cut. Its elements
// are the rows of the plan without it.

namespace millrace::pipeline {
namespace {

constexpr size_t kMostElements = 400;

// The stages of the drawn plan in front of its batch, a window, and steps behind that.
class WindowedPlan {
 public:
  explicit WindowedPlan(uint64_t seed) : made_(RandomPlanMaker(seed).Make()), random_(seed) {
    made_.text.resize(made_.text.rfind('\n', made_.text.rfind("batch-")) + 1);
    size = 1 + Below(6);
    shift = 1 + Below(7);
    stride = 1 + Below(3);
  }

  // True if the plan may have a window.
  bool fits() const { return !made_.has_cut; }
  bool endless() const { return made_.endless; }
  const std::string& number() const { return made_.features[0]; }

  OpenablePlan Without() const { return With("", 1); }
  OpenablePlan Windowed() const { return With(WindowText(), kRows); }
  // With up to two steps over windows and one over batches.
  OpenablePlan Stepped() {
    std::string text = WindowText();
    for (int i = 0; i < 2; ++i) {
      const std::string steps[] = {"shuffle { buffer_size: 9 }", "global_shuffle {}",
                                   "shard { num_shards: 2 index: 1 }", "skip { count: 2 }",
                                   "take { count: 60 }"};
      const uint64_t step = Below(endless() || i > 0 ? 3 : 5) + (endless() || i > 0 ? 2 : 0);
      text += absl::StrCat("stage { name: \"windows-", i, "\" ", steps[step], " }\n");
    }
    return With(text, kRows, "stage { name: \"last\" take { count: 12 } }\n");
  }

  uint64_t size = 0, shift = 0, stride = 0;

 private:
  static constexpr uint64_t kRows = 8;  // which lanes divide

  uint64_t Below(uint64_t n) { return random_() % n; }
  std::string WindowText() const {
    return absl::StrCat("stage { name: \"windowed\" window { size: ", size, " shift: ", shift,
                        " stride: ", stride, " drop_remainder: true } }\n");
  }
  OpenablePlan With(const std::string& behind, uint64_t rows, const std::string& last = "") const {
    RandomPlan made = made_;
    made.text = absl::StrCat(made.text.substr(0, made.text.find("lanes: ")),
                             made.text.substr(made.text.find('\n')), behind,
                             "stage { name: \"last-batch\" batch { size: ", rows, " } }\n", last);
    return OpenablePlan(std::move(made));
  }

  RandomPlan made_;
  std::mt19937_64 random_;
};

// The numbers of so many elements at most, in the order of their rows.
std::vector<int64_t> NumbersOf(Pipeline& pipeline, const std::string& field, size_t most) {
  std::vector<int64_t> numbers;
  while (numbers.size() < most) {
    const auto batch = pipeline.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) break;
    const auto values = (*batch)->Find(field).as<int64_t>();
    const auto valid = (*batch)->valid();
    const size_t size = values.size() / valid.size();
    for (size_t i = 0; i < values.size(); ++i) {
      if (valid[i / size] != 0) numbers.push_back(values[i]);
    }
  }
  return numbers;
}

template <typename Check>
void ForEachWindowedPlan(uint64_t plans, const Check& check) {
  const auto [first, end] = SeedsFromEnvironment(0, plans);
  uint64_t checked = 0;
  for (uint64_t seed = first; seed < end; ++seed) {
    WindowedPlan plan(seed);
    if (!plan.fits() || !plan.Without().Open(FakeContext(2)).ok()) continue;
    check(plan, seed);
    ++checked;
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "seed " << seed << "\n" << plan.Stepped().made().text;
      return;
    }
  }
  if (end - first < 20) return;
  EXPECT_GT(checked, (end - first) / 20);
}

// S-WINDOW-1, S-WINDOW-3.
TEST(RandomWindowTest, WindowsAreSlicesOfThePlanWithoutThem) {
  ForEachWindowedPlan(300, [](const WindowedPlan& plan, uint64_t) {
    const auto without = *plan.Without().Open(FakeContext(2));
    const auto elements = NumbersOf(*without, plan.number(), kMostElements);
    const auto windowed = plan.Windowed().Open(FakeContext(2));
    ASSERT_TRUE(windowed.ok()) << windowed.status();
    const auto seen = NumbersOf(**windowed, plan.number(), kMostElements);
    const uint64_t span = (plan.size - 1) * plan.stride + 1;
    std::vector<int64_t> expected;
    for (uint64_t begin = 0; begin + span <= elements.size(); begin += plan.shift) {
      for (uint64_t i = 0; i < plan.size; ++i) {
        expected.push_back(elements[begin + i * plan.stride]);
      }
    }
    // Where neither was stopped, there are as many.
    if (elements.size() < kMostElements && seen.size() < kMostElements) {
      ASSERT_EQ(seen.size(), expected.size());
    }
    const size_t known = std::min(expected.size(), seen.size());
    ASSERT_TRUE(std::equal(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(known),
                           seen.begin()));
  });
}

// S-RANDOM-2, S-RANK-2, S-STATE-20.
TEST(RandomWindowTest, BitsAreTheSameInEveryWorldForAnyRunsAndFromAnyToken) {
  ForEachWindowedPlan(150, [](WindowedPlan& windowed, uint64_t seed) {
    const OpenablePlan plan = windowed.Stepped();
    const auto reference = plan.Open(FakeContext(2));
    ASSERT_TRUE(reference.ok()) << reference.status();
    const Stream expected = Drain(**reference);
    ASSERT_TRUE(expected.end.ok()) << expected.end;
    std::mt19937_64 random(seed);
    for (const int threads : {1, 3, 8}) {
      OptimizerOptions rules;
      rules.map_into_batch = random() % 2 == 0;
      rules.fuse_image = random() % 2 == 0;
      const int64_t rows_per_run[] = {0, 1, 7, 1024};
      const auto context = FakeContext(threads, random() % 2 == 0 ? 1 : 1 << 30);
      const auto opened = plan.Open(plan.Physical(rules), context, {}, rows_per_run[random() % 4]);
      ASSERT_EQ(Drain(**opened).digests, expected.digests);
    }
    for (const int world : {2, 3, 8}) {
      std::vector<uint64_t> sums(expected.digests.size(), 0);
      for (int rank = 0; rank < world; ++rank) {
        const Stream part = Drain(**plan.Open(FakeContext(2), OfRank(rank, world)));
        ASSERT_EQ(part.digests.size(), sums.size());
        for (size_t i = 0; i < sums.size(); ++i) sums[i] += part.digests[i];
      }
      ASSERT_EQ(sums, expected.digests) << "world " << world;
    }
    if (expected.digests.empty()) return;
    const size_t b = random() % expected.digests.size();
    ASSERT_TRUE((*reference)->Restore(expected.tokens[b]).ok());
    const std::vector<uint64_t> rest(expected.digests.begin() + static_cast<ptrdiff_t>(b) + 1,
                                     expected.digests.end());
    ASSERT_EQ(Drain(**reference).digests, rest);
  });
}

}  // namespace
}  // namespace millrace::pipeline
