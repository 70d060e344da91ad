// The checks by hand-made logs: one of each fault, and clean ones beside it, of which none may be
// found to have any.

#include "tests/trainer/backend/cuda/order/check.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/order/recording.h"

namespace millrace::trainer::cuda::order {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kBytes = 1024;

// One fault, whose text has these parts.
auto Fails(Fault fault, const std::string& a, const std::string& b = "",
           const std::string& c = "") {
  return AllOf(Field(&Finding::fault, fault),
               Field(&Finding::text, AllOf(HasSubstr(a), HasSubstr(b), HasSubstr(c))));
}

class CheckOrderTest : public testing::Test {
 protected:
  std::vector<Finding> Check() const { return CheckOrder(recording_.log()); }
  void Write(int stream, const std::string& name, const void* memory,
             const std::string& tensor = "", size_t bytes = kBytes) {
    recording_.Work(stream, name, {.writes = {{memory, bytes, tensor}}});
  }
  void Read(int stream, const std::string& name, const void* memory, const std::string& tensor = "",
            size_t bytes = kBytes) {
    recording_.Work(stream, name, {.reads = {{memory, bytes, tensor}}});
  }

  Recording recording_;
  const int compute_ = recording_.MakeStream("compute")->number;
  const int nccl_ = recording_.MakeStream("nccl")->number;
  std::byte* const memory_ = recording_.Allocate(kBytes, "of the device");
};

TEST_F(CheckOrderTest, WorkOfOneStreamIsOrdered) {
  Write(compute_, "a", memory_);
  Read(compute_, "b", memory_);
  Write(compute_, "c", memory_);
  EXPECT_THAT(Check(), IsEmpty());
}

TEST_F(CheckOrderTest, AReadOnAnotherStreamNeedsAnEvent) {
  Write(compute_, "wgrad", memory_, "gradient");
  Read(nccl_, "all-reduce", memory_);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kRace,
                                         "all-reduce on nccl reads memory 0 of the device "
                                         "[0, 1024), which wgrad on compute writes",
                                         "no event between")));
}

TEST_F(CheckOrderTest, AnEventOrdersWhatIsBeforeItAndBehindItsWait) {
  Write(compute_, "wgrad", memory_);
  recording_.Order(compute_, nccl_);
  Read(nccl_, "all-reduce", memory_);
  EXPECT_THAT(Check(), IsEmpty());
}

TEST_F(CheckOrderTest, AnEventOrdersNothingThatIsGivenBehindIt) {
  recording_.Order(compute_, nccl_);
  Write(compute_, "wgrad", memory_);
  Write(nccl_, "all-reduce", memory_);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kRace, "all-reduce on nccl writes", "wgrad")));
}

TEST_F(CheckOrderTest, AWaitIsForTheLastRecordBeforeIt) {
  const int event = recording_.MakeEvent();
  recording_.Record(event, compute_);
  Write(compute_, "a", memory_);
  recording_.Wait(nccl_, event);
  recording_.Record(event, compute_);
  Read(nccl_, "b", memory_);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kRace, "b on nccl reads", "a on compute writes")));
}

TEST_F(CheckOrderTest, AnEventThatWasNotRecordedOrdersNothing) {
  Write(compute_, "a", memory_);
  recording_.Wait(nccl_, recording_.MakeEvent());
  Read(nccl_, "b", memory_);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kRace, "b on nccl")));
}

TEST_F(CheckOrderTest, OrderIsTransitiveAlsoOverTheHost) {
  const int feed = recording_.MakeStream("feed")->number;
  Write(compute_, "a", memory_);
  recording_.Order(compute_, nccl_);
  recording_.Order(nccl_, kHost);
  Write(feed, "b", memory_);
  EXPECT_THAT(Check(), IsEmpty());
}

TEST_F(CheckOrderTest, AWriteMustWaitForReaders) {
  Write(compute_, "a", memory_);
  recording_.Order(compute_, nccl_);
  Read(nccl_, "all-reduce", memory_);
  Write(compute_, "next", memory_);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kRace, "next on compute writes",
                                         "all-reduce on nccl reads")));
}

TEST_F(CheckOrderTest, ReadersNeedNotWaitForEachOther) {
  Write(compute_, "a", memory_);
  recording_.Order(compute_, nccl_);
  Read(nccl_, "b", memory_);
  Read(compute_, "c", memory_);
  recording_.Order(nccl_, compute_);
  Write(compute_, "d", memory_);
  EXPECT_THAT(Check(), IsEmpty());
}

TEST_F(CheckOrderTest, BytesBesideEachOtherAreApart) {
  Write(compute_, "a", memory_, "", 100);
  Write(nccl_, "b", memory_ + 100, "", 100);
  EXPECT_THAT(Check(), IsEmpty());
  Write(nccl_, "c", memory_ + 99, "", 1);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kRace, "c on nccl writes", "[99, 100)", "a on")));
}

TEST_F(CheckOrderTest, TheHostMustWaitForALoss) {
  Write(compute_, "copy of the loss", memory_);
  Read(kHost, "look at the loss", memory_);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kRace, "look at the loss on the host reads",
                                         "copy of the loss on compute writes")));
}

TEST_F(CheckOrderTest, TheHostMayReadBehindAWait) {
  Write(compute_, "copy of the loss", memory_);
  recording_.Order(compute_, kHost);
  Write(compute_, "next", memory_ + 512, "", 512);
  Read(kHost, "look at the loss", memory_, "", 512);
  EXPECT_THAT(Check(), IsEmpty());
}

TEST_F(CheckOrderTest, TheHostMustNotFillWhatACopyMayRead) {
  Write(kHost, "fill", memory_);
  Read(compute_, "copy", memory_);
  Write(kHost, "fill again", memory_);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kRace, "fill again on the host writes",
                                         "copy on compute reads")));
}

TEST_F(CheckOrderTest, WhatNobodyWroteIsNotRead) {
  Write(compute_, "a", memory_, "", 512);
  Read(compute_, "b", memory_);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kNotWritten, "b on compute reads", "[512, 1024)")));
}

TEST_F(CheckOrderTest, WhatWasForgottenIsNotRead) {
  Write(compute_, "a", memory_);
  recording_.Forget(memory_, kBytes);
  Read(compute_, "b", memory_);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kNotWritten, "b on compute", "a on compute")));
}

TEST_F(CheckOrderTest, RecycledMemoryHoldsTheTensorThatIsWanted) {
  Write(compute_, "conv1", memory_, "conv1/out");
  Write(compute_, "conv2", memory_ + 512, "conv2/out", 512);
  Read(compute_, "wgrad of conv1", memory_, "conv1/out");
  EXPECT_THAT(Check(),
              ElementsAre(Fails(Fault::kWrongTensor, "wgrad of conv1 on compute reads",
                                "[512, 1024) (conv1/out)", "conv2 on compute wrote 'conv2/out'")));
}

TEST_F(CheckOrderTest, RecyclingBehindTheLastReaderIsRight) {
  Write(compute_, "conv1", memory_, "conv1/out");
  Read(compute_, "wgrad of conv1", memory_, "conv1/out");
  Write(compute_, "conv2", memory_ + 512, "conv2/out", 512);
  Read(compute_, "relu", memory_ + 512, "conv2/out", 512);
  EXPECT_THAT(Check(), IsEmpty());
}

TEST_F(CheckOrderTest, AnUpdateReadsSumsAndNotGradients) {
  Write(compute_, "wgrad", memory_, "gradient");
  Read(compute_, "update", memory_, "sum");
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kWrongTensor, "update on compute reads", "(sum)",
                                         "wgrad on compute wrote 'gradient'")));
}

TEST_F(CheckOrderTest, AnUpdateWaitsForItsSum) {
  Write(compute_, "wgrad", memory_, "gradient");
  recording_.Order(compute_, nccl_);
  recording_.Work(nccl_, "all-reduce", {{{memory_, kBytes}}, {{memory_, kBytes, "sum"}}});
  Read(compute_, "update", memory_, "sum");
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kRace, "update on compute reads",
                                         "all-reduce on nccl writes")));
}

TEST_F(CheckOrderTest, AGradientIsNotMarkedBeforeItIsWritten) {
  Write(nccl_, "zero", memory_);
  recording_.Order(nccl_, compute_);
  recording_.MarkReady("conv1", memory_, kBytes, compute_);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kMarkedEarly, "mark of conv1", "zero on nccl")));
}

TEST_F(CheckOrderTest, AGradientIsNotMarkedBeforeItsLastWrite) {
  Write(compute_, "wgrad", memory_);
  recording_.MarkReady("conv1", memory_, kBytes, compute_);
  Write(compute_, "unscale", memory_);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kMarkedEarly, "unscale on compute",
                                         "mark of conv1 on compute")));
}

TEST_F(CheckOrderTest, MarkedGradientsAreWrittenAgainOnceTheyWereSummed) {
  for (int step = 0; step < 3; ++step) {
    Write(compute_, "wgrad", memory_);
    recording_.MarkReady("conv1", memory_, kBytes, compute_);
    recording_.Order(compute_, nccl_);
    recording_.Work(nccl_, "all-reduce", {{{memory_, kBytes}}, {{memory_, kBytes}}});
    recording_.Order(nccl_, compute_);
  }
  EXPECT_THAT(Check(), IsEmpty());
}

TEST_F(CheckOrderTest, OnlyAllocatedMemoryIsUsed) {
  Write(compute_, "a", memory_, "", kBytes + 1);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kNoMemory, "a on compute uses", "[1024, 1025)")));
}

TEST_F(CheckOrderTest, FreedMemoryIsNotUsed) {
  Write(compute_, "a", memory_);
  recording_.Free(memory_);
  Read(compute_, "b", memory_);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kNoMemory, "b on compute uses")));
}

TEST_F(CheckOrderTest, MemoryThatIsFreedOnAStreamIsFreeOfOtherWork) {
  Write(compute_, "a", memory_);
  recording_.Free(memory_, nccl_);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kRace, "free on nccl", "a on compute")));
}

TEST_F(CheckOrderTest, MemoryIsUsedBehindItsAllocation) {
  std::byte* const late = recording_.Allocate(kBytes, "of the feed", nccl_);
  Write(compute_, "a", late);
  EXPECT_THAT(Check(), ElementsAre(Fails(Fault::kRace, "a on compute", "memory 1 of the feed")));
}

TEST_F(CheckOrderTest, TheUsesOfAnOperationAreThoseThatItDeclared) {
  recording_.Enter("conv1", {.reads = {{memory_, 512, "weights"}},
                             .writes = {{memory_ + 512, 512, "conv1/out"}}});
  recording_.Work(compute_, "product", {{{memory_, 512}}, {{memory_ + 512, 512}}});
  EXPECT_THAT(recording_.undeclared(), IsEmpty());
  const Entry& work = recording_.log().entries.back();
  EXPECT_EQ(work.name, "conv1: product");
  EXPECT_EQ(work.reads[0].tensor, "weights");
  EXPECT_EQ(work.writes[0].tensor, "conv1/out");
  Write(compute_, "relu", memory_ + 511, "", 2);
  EXPECT_THAT(recording_.undeclared(),
              ElementsAre("conv1 writes memory 0 of the device [511, 513)"));
}

// Two steps of a program of three items, of which the second may be left out.
Log ThreeItems(bool has_second, size_t gap) {
  Recording recording;
  const int stream = recording.MakeStream("compute")->number;
  std::byte* const memory = recording.Allocate(4 * kBytes, "of the device");
  for (int step = 0; step < 2; ++step) {
    recording.Work(stream, "first", {.writes = {{memory, kBytes}}});
    if (has_second) {
      recording.Work(stream, "second", {{{memory, 512}}, {{memory + gap, kBytes}}});
    }
    recording.Work(stream, "third", {.reads = {{memory + 512, gap}}});
  }
  return recording.log();
}

TEST(CompareWorkTest, EqualWorkIsEqual) {
  EXPECT_THAT(CompareWork(ThreeItems(true, kBytes), ThreeItems(true, kBytes)), IsEmpty());
}

TEST(CompareWorkTest, AMissingItemIsNamed) {
  EXPECT_THAT(CompareWork(ThreeItems(false, kBytes), ThreeItems(true, kBytes)),
              ElementsAre(Fails(Fault::kOtherWork, "item 1 of compute: third on compute",
                                "; not second on compute, reads memory 0")));
}

TEST(CompareWorkTest, OtherBytesAreOtherWork) {
  EXPECT_THAT(CompareWork(ThreeItems(true, kBytes), ThreeItems(true, 2 * kBytes)),
              ElementsAre(Fails(Fault::kOtherWork, "item 1 of compute", "writes memory 0")));
}

TEST(CompareSourcesTest, SourcesDoNotDependOnPlaces) {
  Recording recording;
  const int stream = recording.MakeStream("compute")->number;
  std::byte* const a = recording.Allocate(kBytes, "a");
  std::byte* const b = recording.Allocate(kBytes, "b");
  for (std::byte* const memory : {a, b}) {
    recording.Work(stream, "write", {.writes = {{memory, kBytes}}});
    recording.Work(stream, "read", {.reads = {{memory, kBytes}}});
  }
  Recording recycled;
  const int same = recycled.MakeStream("compute")->number;
  std::byte* const memory = recycled.Allocate(kBytes, "a");
  for (int i = 0; i < 2; ++i) {
    recycled.Work(same, "write", {.writes = {{memory, kBytes}}});
    recycled.Work(same, "read", {.reads = {{memory, kBytes}}});
  }
  EXPECT_THAT(CompareSources(recycled.log(), recording.log()), IsEmpty());
}

TEST(CompareSourcesTest, AnotherSourceIsNamed) {
  EXPECT_THAT(CompareSources(ThreeItems(true, 512), ThreeItems(true, kBytes)),
              Contains(Fails(Fault::kOtherSource, "third on compute reads")));
}

TEST(CompareSourcesTest, AMissingItemIsNamed) {
  EXPECT_THAT(CompareSources(ThreeItems(false, kBytes), ThreeItems(true, kBytes)),
              Contains(Fails(Fault::kOtherWork, "second (number 0) is only in the reference")));
}

}  // namespace
}  // namespace millrace::trainer::cuda::order
