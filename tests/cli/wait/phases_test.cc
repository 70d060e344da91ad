#include "cli/wait/phases.h"

#include <gtest/gtest.h>

#include <chrono>

namespace millrace::cli {
namespace {

std::chrono::seconds g_passed_of_phases{0};
std::chrono::steady_clock::time_point PhasesNow() {
  return std::chrono::steady_clock::time_point() + g_passed_of_phases;
}

TEST(Phases, EachPhaseHasItsOwnTimeAndCount) {
  testing::internal::CaptureStderr();
  {
    Phases phases(&PhasesNow);
    phases.Begin("index", "bytes");
    const auto index = phases.Callback("index", "bytes");
    const auto convert = phases.Callback("convert", "records");
    g_passed_of_phases = std::chrono::seconds(10);
    index(20 << 20, 50 << 20);
    convert(0, 1000);
    g_passed_of_phases = std::chrono::seconds(16);
    convert(600, 1000);
    phases.End();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "index:  40% of 50.0 MiB, 2.0 MiB/s, 15 s left\n"
            "index: 20.0 MiB in 10.0 s (2.0 MiB/s)\n"
            "convert:  60% of 1000 records, 100/s, 4 s left\n"
            "convert: 600 records in 6.0 s (100/s)\n");
}

TEST(Phases, APhaseThatNobodyToldOfPrintsNothing) {
  testing::internal::CaptureStderr();
  {
    Phases phases(&PhasesNow);
    phases.Begin("index", "bytes");
    g_passed_of_phases += std::chrono::seconds(60);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace millrace::cli
