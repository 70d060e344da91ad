#include "trainer/loop/auc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/philox.h"
#include "collectives/factory.h"
#include "tests/trainer/loop/train_fixture.h"

namespace millrace::trainer {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The definition: all pairs of a sample of class 1 and one of class 0, where a tie counts half.
double ByPairs(const ClassScores& scores) {
  double sum = 0;
  for (const double one : scores.ones) {
    for (const double zero : scores.zeros) sum += one > zero ? 1 : (one == zero ? 0.5 : 0);
  }
  return sum / static_cast<double>(scores.ones.size() * scores.zeros.size());
}

// Scores of few values, so that there are ties, of both signs of zero too.
ClassScores Draw(uint64_t number, int count) {
  RandomKey key;
  key.record = number;
  RandomStream random(key);
  ClassScores scores;
  for (int i = 0; i < count; ++i) {
    const bool is_one = random.NextFloat() < 0.3f;
    const double score = std::round(8 * random.NextFloat() - (is_one ? 3 : 4)) / 4;
    (is_one ? scores.ones : scores.zeros).push_back(score);
  }
  return scores;
}

TEST(AucTest, KnownValues) {
  EXPECT_EQ(AreaUnderCurve({{3, 4}, {1, 2}}), 1);
  EXPECT_EQ(AreaUnderCurve({{1, 2}, {3, 4}}), 0);
  EXPECT_EQ(AreaUnderCurve({{1, 1}, {1}}), 0.5);
  EXPECT_EQ(AreaUnderCurve({{-0.0}, {0.0}}), 0.5);
  // The example of scikit-learn's roc_auc_score: labels 0 0 1 1, scores 0.1 0.4 0.35 0.8.
  EXPECT_EQ(AreaUnderCurve({{0.35, 0.8}, {0.1, 0.4}}), 0.75);
}

TEST(AucTest, OneClassAloneOrNanIsUndefined) {
  EXPECT_TRUE(std::isnan(AreaUnderCurve({{1}, {}})));
  EXPECT_TRUE(std::isnan(AreaUnderCurve({{}, {1}})));
  EXPECT_TRUE(std::isnan(AreaUnderCurve({{1, kNan}, {1}})));
  EXPECT_TRUE(std::isnan(AreaUnderCurve({{1}, {kNan}})));
}

TEST(AucTest, AgreesWithTheCountOfAllPairs) {
  for (uint64_t number = 0; number < 50; ++number) {
    const ClassScores scores = Draw(number, 20 + static_cast<int>(number));
    EXPECT_DOUBLE_EQ(AreaUnderCurve(scores), ByPairs(scores)) << number;
  }
}

// One of the ranks has no sample of a class, or none at all.
TEST(AucTest, HasTheSameBitsForEveryDivisionOverRanks) {
  const ClassScores all = Draw(7, 101);
  const double expected = AreaUnderCurve(all);
  for (const int world : {1, 2, 3, 5}) {
    std::vector<double> areas(world);
    const auto status = collectives::RunRanks(world, [&](collectives::Communicator& ranks) {
      ClassScores part;
      const int rank = ranks.rank();
      for (size_t i = 0; i < all.ones.size(); ++i) {
        if (static_cast<int>(i % world) == (rank + 1) % world) part.ones.push_back(all.ones[i]);
      }
      if (rank == world - 1) part.zeros = {all.zeros.rbegin(), all.zeros.rend()};
      auto area = AucOverRanks(ranks, part);
      if (area.ok()) areas[rank] = *area;
      return area.status();
    });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(areas, std::vector<double>(world, expected));
  }
}

class AucTrainTest : public TrainTest {
 protected:
  // The labels of the shards are 0, 1 and 2: those of `classes` stay.
  void WriteLoss(const std::string& layers, const std::string& stages) {
    Write(folder_ / "model.pbtxt",
          absl::StrCat("layer { input_layer { shape: [6, 6, 1] } }\n", layers));
    const auto with = [&](std::string plan) {
      return plan.insert(plan.find("stage { batch"), stages);
    };
    Write(folder_ / "train.pbtxt", with(PipelineText("${DATA}/train-*.tfrecord", 8, true)));
    Write(folder_ / "eval.pbtxt", with(PipelineText("${DATA}/test-*.tfrecord", 5, false)));
  }
};

constexpr char kTwoClasses[] = "stage { filter { predicate: \"label < 2\" } }\n";

TEST_F(AucTrainTest, IsPrintedOfTwoClassesAndTheSameOnAnyNumberOfRanks) {
  const char* const losses[] = {
      "layer { fully_connected { outputs: 2 } } layer { softmax_cross_entropy {} }\n",
      "layer { fully_connected { outputs: 1 } } layer { sigmoid_cross_entropy {} }\n"};
  for (const char* const loss : losses) {
    WriteLoss(loss, kTwoClasses);
    WriteJob("", "base_lr: 0", "epochs: 1 steps_per_epoch: 2");
    std::vector<std::string> evaluations;
    for (const int world : {1, 2, 3}) {
      const auto outcome = Run(world);
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      const auto line = std::ranges::find_if(
          lines_, [](const std::string& text) { return text.find("AUC") != text.npos; });
      ASSERT_NE(line, lines_.end());
      EXPECT_THAT(*line, ContainsRegex("AUC [01]\\.[0-9]+, loss"));
      evaluations.push_back(*line);
    }
    EXPECT_EQ(evaluations, std::vector<std::string>(3, evaluations[0]));
  }
}

TEST_F(AucTrainTest, IsNotPrintedOfThreeClasses) {
  ASSERT_TRUE(Run(1).ok());
  EXPECT_THAT(lines_, Not(Contains(HasSubstr("AUC"))));
}

TEST_F(AucTrainTest, IsUndefinedWithOneClass) {
  WriteLoss("layer { fully_connected { outputs: 2 } } layer { softmax_cross_entropy {} }\n",
            "stage { filter { predicate: \"label < 1\" } }\n");
  WriteJob("", "base_lr: 0", "epochs: 1 steps_per_epoch: 2");
  ASSERT_TRUE(Run(1).ok());
  EXPECT_THAT(lines_, Contains(HasSubstr(", AUC undefined, loss")));
}

}  // namespace
}  // namespace millrace::trainer
