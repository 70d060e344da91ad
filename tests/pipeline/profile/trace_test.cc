#include "pipeline/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "pipeline/profile/trace_buffer.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string TextOf(const PipelineTrace& trace, int64_t offset_ns = 0) {
  ChromeEvents events;
  AddTrace(trace, /*process=*/2, offset_ns, events);
  return events.text();
}

TEST(TraceTest, EachWorkerHasALine) {
  TraceBuffer buffer(10);
  buffer.AddItem(ItemKind::kProcess, 1'000, 2'000);
  std::thread([&] { buffer.AddItem(ItemKind::kPlan, 1'500, 2'500); }).join();
  buffer.AddItem(ItemKind::kFinish, 2'000, 3'000);
  const PipelineTrace trace = buffer.Take();
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_EQ(trace.events[0].of, 0);
  EXPECT_EQ(trace.events[1].of, 1);
  EXPECT_EQ(trace.events[2].of, 0);
  const std::string text = TextOf(trace, /*offset_ns=*/10'000);
  EXPECT_THAT(text, HasSubstr("\"pid\": 2, \"tid\": 101, \"args\": {\"name\": \"worker 1\"}}"));
  EXPECT_THAT(text, HasSubstr("{\"name\": \"plan\", \"ph\": \"X\", \"pid\": 2, \"tid\": 101, "
                              "\"ts\": 11.500, \"dur\": 1.000}"));
}

TEST(TraceTest, TheConsumersLineHasItsWaitsAndBatches) {
  TraceBuffer buffer(10);
  buffer.AddWait(WaitCause::kReading, 1'000, 1'000);  // no time
  buffer.AddWait(WaitCause::kReading, 1'000, 3'000);
  buffer.AddBatch(7, 3'000);
  buffer.SetReady(2, 3'000);
  const PipelineTrace trace = buffer.Take();
  EXPECT_EQ(trace.events.size(), 3u);
  const std::string text = TextOf(trace);
  EXPECT_THAT(text, HasSubstr("{\"name\": \"wait: reading\", \"ph\": \"X\", \"pid\": 2, \"tid\": "
                              "10, \"ts\": 1.000, \"dur\": 2.000}"));
  EXPECT_THAT(text, HasSubstr("{\"name\": \"batch\", \"ph\": \"i\", \"pid\": 2, \"tid\": 10, "
                              "\"ts\": 3.000, \"s\": \"t\", \"args\": {\"number\": 7}}"));
  EXPECT_THAT(text, HasSubstr("{\"name\": \"ready batches\", \"ph\": \"C\""));
}

TEST(TraceTest, ReadsThatOverlapHaveLinesOfTheirOwn) {
  TraceBuffer buffer(10);
  buffer.AddRead(1, 50, 1'000, 4'000);
  buffer.AddRead(0, 60, 2'000, 3'000);
  buffer.AddRead(0, 70, 4'000, 5'000);
  PipelineTrace trace = buffer.Take();
  trace.files = {"a", "b\"c"};
  const std::string text = TextOf(trace);
  EXPECT_THAT(text,
              HasSubstr("\"tid\": 10000, \"ts\": 1.000, \"dur\": 3.000, \"args\": {\"bytes\": "
                        "50, \"file\": \"b\\\"c\"}}"));
  EXPECT_THAT(text, HasSubstr("\"tid\": 10001, \"ts\": 2.000"));
  EXPECT_THAT(text, HasSubstr("\"tid\": 10000, \"ts\": 4.000"));
  EXPECT_THAT(text, Not(HasSubstr("\"tid\": 10002")));
}

TEST(TraceTest, EventsWithoutRoomAreCounted) {
  TraceBuffer buffer(2);
  for (int i = 0; i < 5; ++i) buffer.AddBatch(i, 1'000 * i);
  const PipelineTrace trace = buffer.Take();
  EXPECT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(trace.dropped, 3u);
  EXPECT_THAT(TextOf(trace), HasSubstr("\"consumer (3 later events dropped)\""));
}

}  // namespace
}  // namespace millrace::pipeline
