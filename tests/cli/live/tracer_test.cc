#include "cli/live/tracer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

namespace millrace::cli {
namespace {

using std::chrono::milliseconds;

// The request without the end of its line.
std::string Line(double seconds) {
  std::string line = TraceRequest(seconds);
  EXPECT_EQ(line.back(), '\n');
  line.pop_back();
  return line;
}

TEST(TraceTimeOf, IsThatOfTheRequest) {
  EXPECT_EQ(TraceTimeOf(Line(10)), std::chrono::seconds(10));
  EXPECT_EQ(TraceTimeOf(Line(0.25)), milliseconds(250));
}

TEST(TraceTimeOf, IsNeitherEndlessNorNothing) {
  EXPECT_EQ(TraceTimeOf("trace 1e300"), std::chrono::minutes(1));
  EXPECT_EQ(TraceTimeOf("trace inf"), std::chrono::minutes(1));
  EXPECT_EQ(TraceTimeOf("trace -5"), milliseconds(10));
}

TEST(TraceTimeOf, OtherLinesAskForNoTrace) {
  for (const char* const line :
       {"", "figures", "trace", "trace ", "trace nan", "trace ten", "traces 10", "trace 10 s"}) {
    EXPECT_EQ(TraceTimeOf(line), std::nullopt) << line;
  }
}

TEST(TraceText, HasTheEventsOfEachRankAsAProcess) {
  pipeline::PipelineTrace trace;
  pipeline::TraceEvent batch;
  batch.kind = pipeline::TraceEvent::Kind::kBatch;
  batch.begin_ns = batch.end_ns = 7000;
  trace.events.push_back(batch);
  ChromeEvents events;
  AddRankTrace(0, {}, events);
  AddRankTrace(3, trace, events);
  const auto json = nlohmann::json::parse(TraceText(events));
  std::vector<std::string> processes;
  int batches = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["name"] == "process_name") processes.push_back(event["args"]["name"]);
    if (event["name"] == "batch") batches += event["pid"] == 3 ? 1 : 0;
  }
  EXPECT_EQ(processes, (std::vector<std::string>{"rank 0", "rank 3"}));
  EXPECT_EQ(batches, 1);
}

}  // namespace
}  // namespace millrace::cli
