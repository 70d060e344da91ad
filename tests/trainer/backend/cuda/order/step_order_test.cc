// Training steps of whole networks race with nothing, read what they are to read, and are the same
// in graphs. No arithmetic is done, so ResNet-50 takes no more than its list of work.

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/backend/cuda/order/check.h"
#include "tests/trainer/backend/cuda/order/recorded_steps.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/models.h"

namespace millrace::trainer::cuda::order {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

Model NetworkOf(const std::string& name) {
  const auto text = WriteModel(name, {});
  EXPECT_TRUE(text.ok()) << text.status();
  return MakeModel(*text);
}

std::vector<RecordedRank> Record(const Model& model, const StepOptions& options) {
  auto ranks = RecordSteps(model, options);
  EXPECT_TRUE(ranks.ok()) << ranks.status();
  return ranks.ok() ? *std::move(ranks)
                    : std::vector<RecordedRank>(static_cast<size_t>(options.ranks));
}

void ExpectEachClean(const std::vector<RecordedRank>& ranks) {
  for (const RecordedRank& rank : ranks) {
    EXPECT_THAT(CheckOrder(rank.log), IsEmpty());
    EXPECT_THAT(rank.undeclared, IsEmpty());
  }
}

// Ranks that also do the same.
void ExpectClean(const std::vector<RecordedRank>& ranks) {
  ExpectEachClean(ranks);
  EXPECT_THAT(CompareWork(ranks[1].log, ranks[0].log), IsEmpty());
}

StepOptions ResNetOptions() {
  StepOptions options;
  options.rows = 256;
  return options;
}

std::vector<std::string> NamesOf(const Log& log) {
  std::vector<std::string> names;
  for (const Entry& entry : log.entries) names.push_back(entry.name);
  return names;
}

TEST(StepOrderTest, ALeNetsStepsRaceWithNothing) {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kBFloat16, Precision::kFloat16}) {
    StepOptions options;
    options.precision = precision;
    ExpectClean(Record(NetworkOf("lenet"), options));
  }
}

TEST(StepOrderTest, AResNet50sStepsOf256ImagesRaceWithNothing) {
  const std::vector<RecordedRank> ranks = Record(NetworkOf("resnet50"), ResNetOptions());
  ExpectClean(ranks);
  // What was looked at is there.
  const std::vector<std::string> names = NamesOf(ranks[0].log);
  EXPECT_THAT(names, Contains(HasSubstr("layer4.2.bn3")));
  EXPECT_THAT(names, Contains("bn1: forward: norm_pool"));
  EXPECT_THAT(names, Contains("bn1: gradients: norm_pool_backward_sums"));
  EXPECT_THAT(names, Contains("bn1: gradient of input: norm_pool_backward_combine"));
  EXPECT_GE(std::ranges::count(names, "update"), 5 * 6);
  EXPECT_GE(std::ranges::count(names, "AllReduce"), 5 * 6);
  EXPECT_GE(std::ranges::count(names, "copy of the feed"), 5 * 2);
}

TEST(StepOrderTest, OtherNetworksStepsRaceWithNothing) {
  for (const char* const name : {"mlp", "resnet18", "hep_cnn", "cosmogan_discriminator"}) {
    SCOPED_TRACE(name);
    ExpectClean(Record(NetworkOf(name), {}));
  }
}

TEST(StepOrderTest, RecycledMemoryHoldsWhatMemoryOfItsOwnWould) {
  for (const char* const name : {"lenet", "resnet50"}) {
    StepOptions options = ResNetOptions();
    const std::vector<RecordedRank> recycled = Record(NetworkOf(name), options);
    options.network.recycles = false;
    const std::vector<RecordedRank> reference = Record(NetworkOf(name), options);
    ExpectClean(reference);
    EXPECT_THAT(CompareSources(recycled[0].log, reference[0].log), IsEmpty()) << name;
  }
}

TEST(StepOrderTest, GraphsAreTheWorkThatWasCaptured) {
  for (const char* const name : {"lenet", "resnet50"}) {
    SCOPED_TRACE(name);
    StepOptions options = ResNetOptions();
    const std::vector<RecordedRank> plain = Record(NetworkOf(name), options);
    options.network.captures = true;
    for (const std::vector<int>& ends : {std::vector<int>(), std::vector<int>{100, 50, 4}}) {
      options.network.graph_ends = ends;
      const std::vector<RecordedRank> captured = Record(NetworkOf(name), options);
      ExpectClean(captured);
      EXPECT_THAT(CompareWork(captured[0].log, plain[0].log), IsEmpty());
    }
  }
}

// Its host does not wait for a step's sums.
TEST(StepOrderTest, StepsOfARankAloneRaceWithNothing) {
  const Model model = NetworkOf("resnet50");
  for (const char* const job : {"optimizer { sgd { momentum: 0.9 } }", "optimizer { lars {} }",
                                "reduction { exact: true } optimizer { adam {} }"}) {
    SCOPED_TRACE(job);
    StepOptions options = ResNetOptions();
    options.ranks = 1;
    options.job = job;
    ExpectEachClean(Record(model, options));
    options.network.captures = true;
    ExpectEachClean(Record(model, options));
  }
}

// Each rank sums a share of its own.
TEST(StepOrderTest, StepsOfOtherJobsRaceWithNothing) {
  const Model model = NetworkOf("resnet18");
  for (const char* const job :
       {"reduction { exact: true }", "reduction { clip_norm: 1 skip_non_finite: true }",
        "reduction { shard_optimizer: true }", "reduction { wire_dtype: \"bfloat16\" }",
        "optimizer { lars {} }", "optimizer { adam {} }"}) {
    SCOPED_TRACE(job);
    StepOptions options;
    options.job = job;
    ExpectEachClean(Record(model, options));
  }
}

}  // namespace
}  // namespace millrace::trainer::cuda::order
