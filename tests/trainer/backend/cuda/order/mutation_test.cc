// Mistakes in the order of a training step are found, or make no difference.

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/order/check.h"
#include "tests/trainer/backend/cuda/order/mutations.h"
#include "tests/trainer/backend/cuda/order/recorded_steps.h"
#include "tests/trainer/backend/cuda/order/schedules.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/models.h"

namespace millrace::trainer::cuda::order {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;

// Steps of a ResNet-50 on 256 images.
const Log& ResNetLog() {
  static const auto* const kLog = [] {
    StepOptions options;
    options.rows = 256;
    const auto ranks = RecordSteps(MakeModel(*WriteModel("resnet50", {})), options);
    EXPECT_TRUE(ranks.ok()) << ranks.status();
    return new Log((*ranks)[0].log);
  }();
  return *kLog;
}

using IsWanted = std::function<bool(const Entry& entry)>;

IsWanted Named(const std::string& part) {
  return [part](const Entry& entry) { return entry.name.find(part) != std::string::npos; };
}

// The last entry before `end` that is wanted.
size_t LastBefore(const Log& log, size_t end, const IsWanted& is_wanted) {
  size_t place = end;
  while (!is_wanted(log.entries[--place])) {
  }
  return place;
}

size_t Last(const Log& log, const std::string& part) {
  return LastBefore(log, log.entries.size(), Named(part));
}

IsWanted WaitOf(const Log& log, const std::string& stream) {
  return [&log, stream](const Entry& entry) {
    return entry.kind == Entry::Kind::kWait && log.streams[entry.stream] == stream;
  };
}

auto Finds(Fault fault, const std::string& a, const std::string& b) {
  return Contains(AllOf(Field(&Finding::fault, fault),
                        Field(&Finding::text, AllOf(HasSubstr(a), HasSubstr(b)))));
}

TEST(MutationTest, AMissingWaitOfASumIsFound) {
  const Log& log = ResNetLog();
  const size_t wait = LastBefore(log, Last(log, "AllReduce"), WaitOf(log, "nccl"));
  const Mutation mutation = DropWait(log, wait);
  EXPECT_THAT(CheckOrder(mutation.log), Finds(Fault::kRace, "AllReduce on nccl", "conv1: "))
      << mutation.text;
}

TEST(MutationTest, AMissingWaitForTheBatchIsFound) {
  const Log& log = ResNetLog();
  const size_t wait = LastBefore(log, Last(log, "image: fold"), WaitOf(log, "compute"));
  const Mutation mutation = DropWait(log, wait);
  EXPECT_THAT(CheckOrder(mutation.log),
              Finds(Fault::kRace, "fold on compute reads", "copy of the feed on feed writes"))
      << mutation.text;
}

TEST(MutationTest, ALossThatIsReadWithoutWaitingIsFound) {
  const Log& log = ResNetLog();
  const size_t wait = LastBefore(log, Last(log, "look at copies"), WaitOf(log, "the host"));
  const Mutation mutation = DropWait(log, wait);
  EXPECT_THAT(CheckOrder(mutation.log),
              Finds(Fault::kRace, "look at copies on the host reads", "copy on compute writes"))
      << mutation.text;
}

TEST(MutationTest, OperationsTheOtherWayRoundAreFound) {
  const Log& log = ResNetLog();
  const size_t product = Last(log, "layer2.0.conv1: forward");
  const Mutation mutation = *Swap(log, product);
  EXPECT_THAT(CheckOrder(mutation.log), Finds(Fault::kNotWritten, "layer2.0.bn1", "reads"))
      << mutation.text;
}

TEST(MutationTest, AGradientThatIsMarkedEarlyIsFound) {
  const Log& log = ResNetLog();
  const size_t ready = Last(log, "mark of layer1.0.conv1/weights");
  const Mutation mutation = *MarkEarly(log, ready);
  EXPECT_THAT(CheckOrder(mutation.log),
              Finds(Fault::kMarkedEarly, "layer1.0.conv1", "mark of layer1.0.conv1/weights"))
      << mutation.text;
}

TEST(MutationTest, AnUpdateBeforeTheLastSumIsFound) {
  const Log& log = ResNetLog();
  const size_t update = Last(log, "update");
  const size_t wait = LastBefore(log, update, WaitOf(log, "the host"));
  const size_t sum = LastBefore(log, wait, Named("AllReduce"));
  const Mutation after_sum = MoveBefore(log, update, sum + 1);
  EXPECT_THAT(CheckOrder(after_sum.log), Finds(Fault::kRace, "update", "AllReduce on nccl"))
      << after_sum.text;
  const Mutation before_sum = MoveBefore(log, update, sum);
  EXPECT_THAT(CheckOrder(before_sum.log),
              Finds(Fault::kWrongTensor, "update", "wrote 'gradient of"))
      << before_sum.text;
}

// The output of a convolution of the third stage, in the memory of one that its own forward pass
// still reads.
TEST(MutationTest, MemoryThatIsRecycledALayerTooEarlyIsFound) {
  const Log& log = ResNetLog();
  const size_t work = Last(log, "layer3.0.conv2: forward");
  const size_t before = Last(log, "layer3.0.conv1: forward");
  const Mutation mutation = Place(log, work, 0, log.entries[before].writes[0].begin);
  EXPECT_THAT(CheckOrder(mutation.log), Finds(Fault::kWrongTensor, "layer3.0.", "layer3.0.conv2"))
      << mutation.text;
}

// True if all items of work read in every run what they read in `reference`'s first one.
bool MakesNoDifference(const Log& log, const ValuesRead& reference) {
  return std::ranges::all_of(ExtremeRuns(log, 8),
                             [&](const LogRun& run) { return run.values == reference; });
}

// The host waits for the loss of each step, and so for the readers of its batch, before it has the
// feed write to their memory again. (feed_order_test.cc has steps without a loss.)
TEST(MutationTest, AWaitThatTheHostMakesUpForMakesNoDifference) {
  const Log& log = ResNetLog();
  const size_t wait = LastBefore(log, Last(log, "copy of the feed"), WaitOf(log, "feed"));
  const Mutation mutation = DropWait(log, wait);
  EXPECT_THAT(CheckOrder(mutation.log), testing::IsEmpty());
  EXPECT_TRUE(MakesNoDifference(mutation.log, ExtremeRuns(log, 0)[0].values));
  Log without_host = mutation.log;
  std::erase_if(without_host.entries, WaitOf(log, "the host"));
  EXPECT_THAT(CheckOrder(without_host),
              Finds(Fault::kRace, "copy of the feed on feed writes", "fold on compute reads"));
}

TEST(MutationTest, RandomMistakesAreFoundOrMakeNoDifference) {
  const Log& log = ResNetLog();
  const ValuesRead reference = ExtremeRuns(log, 0)[0].values;
  ASSERT_THAT(CheckOrder(log), testing::IsEmpty());
  ASSERT_TRUE(MakesNoDifference(log, reference));
  size_t by_order = 0, by_sources = 0, harmless = 0;
  for (const Mutation& mutation : RandomMutations(log, 40, 1)) {
    if (!CheckOrder(mutation.log).empty()) {
      ++by_order;
    } else if (!CompareSources(mutation.log, log).empty()) {
      ++by_sources;
    } else {
      EXPECT_TRUE(MakesNoDifference(mutation.log, reference)) << mutation.text;
      ++harmless;
    }
  }
  RecordProperty("by_order", static_cast<int>(by_order));
  RecordProperty("by_sources", static_cast<int>(by_sources));
  RecordProperty("harmless", static_cast<int>(harmless));
  EXPECT_GE(by_order + by_sources, 20u);
  EXPECT_GE(by_order, 2 * by_sources);
  EXPECT_GE(harmless, 1u);
}

}  // namespace
}  // namespace millrace::trainer::cuda::order
