#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "pipeline/diagnosis.h"
#include "tests/pipeline/diagnosis/made_stretch.h"

// The facts beside the verdict: storage, the consumer, copies, context switches.

namespace millrace::pipeline {
namespace {

using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;

// Ten seconds in which 1,000 samples of 100,000 bytes were read.
class FactsTest : public testing::Test {
 protected:
  FactsTest() : profile_(stretch_.profile()), host_(stretch_.host()) {
    host_.call_read_bytes = profile_.reads.bytes;
    host_.device_read_bytes = 0;
  }
  Diagnosis Diagnosed() const { return Diagnose(profile_, host_, stretch_.options()); }
  std::vector<std::string> Screen() const { return FormatDiagnosis("title", Diagnosed()); }

  const MadeStretch stretch_;
  PipelineProfile profile_;
  HostUse host_;
};

TEST_F(FactsTest, ThePageCacheHadThePartThatStorageDidNotDeliver) {
  EXPECT_THAT(Diagnosed().cached, Optional(1.0));
  host_.device_read_bytes = profile_.reads.bytes / 4;
  EXPECT_THAT(Diagnosed().cached, Optional(DoubleNear(0.75, 1e-6)));
  EXPECT_THAT(Screen(), Contains(HasSubstr("from the page cache: 75.0%")));
}

TEST_F(FactsTest, BytesReadAheadOfTheCallsAreNoNegativePart) {
  host_.device_read_bytes = 2 * profile_.reads.bytes;
  EXPECT_THAT(Diagnosed().cached, Optional(0.0));
}

TEST_F(FactsTest, ReadsAtTheEndsOfTheStretchLeaveThePartKnown) {
  host_.call_read_bytes = profile_.reads.bytes * 95 / 100;
  EXPECT_TRUE(Diagnosed().cached.has_value());
}

TEST_F(FactsTest, WhereCallsDoNotBringAllBytesThePartIsNotKnown) {
  host_.call_read_bytes = profile_.reads.bytes / 2;  // a mapped file, or an inflated one
  EXPECT_EQ(Diagnosed().cached, std::nullopt);
  EXPECT_THAT(Screen(), Not(Contains(HasSubstr("page cache"))));
  host_.call_read_bytes.reset();
  EXPECT_EQ(Diagnosed().cached, std::nullopt);
  host_.call_read_bytes = profile_.reads.bytes;
  host_.device_read_bytes.reset();
  EXPECT_EQ(Diagnosed().cached, std::nullopt);
}

TEST_F(FactsTest, ReadsInFlightAreTheirTimeOverThatOfTheStretch) {
  profile_.reads.ns = 25 * profile_.elapsed_ns / 10;
  profile_.reads.any_ns = profile_.elapsed_ns / 2;
  const Diagnosis diagnosis = Diagnosed();
  EXPECT_NEAR(diagnosis.reads_in_flight, 2.5, 1e-6);
  EXPECT_NEAR(diagnosis.reads_under_way, 5, 1e-6);  // while there were any
}

TEST_F(FactsTest, ReadsHaveTheQuantilesOfTheirGroups) {
  profile_.reads.group_ns.Add(1'000'000, 90);
  profile_.reads.group_ns.Add(20'000'000, 10);
  const Diagnosis diagnosis = Diagnosed();
  EXPECT_NEAR(diagnosis.read_p50_ms, 1, 0.125);
  EXPECT_NEAR(diagnosis.read_p99_ms, 20, 2.5);
  EXPECT_THAT(Screen(), Contains(HasSubstr(" in flight")));
}

TEST_F(FactsTest, AStretchWithoutReadsHasNoQuantilesOfEarlierOnes) {
  profile_.reads.group_ns.Add(20'000'000, 10);
  const TimeHistogram earlier = profile_.reads.group_ns;
  profile_.reads.group_ns.Subtract(earlier);
  EXPECT_EQ(Diagnosed().read_p99_ms, 0);
}

TEST_F(FactsTest, TheConsumerHasTheTimeBetweenItsCalls) {
  profile_.batches = 100;
  profile_.wait_ns = {};
  profile_.wait_ns[0] = profile_.elapsed_ns * 3 / 4;
  EXPECT_NEAR(Diagnosed().consumer_ms, 25, 1e-6);
}

TEST_F(FactsTest, AHandOverTakesTheMeanOfTheMeasuredCalls) {
  EXPECT_EQ(Diagnosed().hand_over_us, std::nullopt);
  EXPECT_THAT(Screen(), Not(Contains(HasSubstr("to take a batch"))));
  profile_.hand_over = {4, 6000};
  EXPECT_THAT(Diagnosed().hand_over_us, Optional(DoubleNear(1.5, 1e-6)));
  EXPECT_THAT(Screen(), Contains(HasSubstr("1.5 us to take a batch that is ready")));
}

TEST_F(FactsTest, CopiesAreThereWithAFeed) {
  EXPECT_FALSE(Diagnosed().copies.has_value());
  EXPECT_THAT(Screen(), Not(Contains(HasSubstr("copies to the device"))));
  profile_.copies = {10, 5'000'000'000, 400'000, profile_.elapsed_ns / 10};
  const Diagnosis diagnosis = Diagnosed();
  ASSERT_TRUE(diagnosis.copies.has_value());
  EXPECT_NEAR(diagnosis.copies->bytes_per_second, 5e8, 1);
  EXPECT_NEAR(diagnosis.copies->issue_us, 40, 1e-6);
  EXPECT_NEAR(diagnosis.copies->wait_fraction, 0.1, 1e-6);
  EXPECT_THAT(Screen(), Contains(HasSubstr("copies to the device: ")));
}

TEST_F(FactsTest, ContextSwitchesAreBySecondAndByKind) {
  host_.voluntary_switches = 12'000;
  host_.involuntary_switches = 300;
  const Diagnosis diagnosis = Diagnosed();
  EXPECT_NEAR(diagnosis.switches, 1200, 1e-6);
  EXPECT_NEAR(diagnosis.preemptions, 30, 1e-6);
  EXPECT_THAT(Screen(), Contains(HasSubstr("1,200 of threads that wait, 30.0 forced")));
}

}  // namespace
}  // namespace millrace::pipeline
