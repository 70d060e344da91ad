#include "cli/wait/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <chrono>
#include <string>

namespace millrace::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using TimePoint = std::chrono::steady_clock::time_point;

// A clock that stands still until it is told to go.
std::chrono::milliseconds g_passed{0};
TimePoint FakeNow() { return TimePoint() + g_passed; }

std::string PlainOutputOf(void (*body)()) {
  g_passed = std::chrono::milliseconds(0);
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

TEST(Progress, PlainOutputIsOneLineWithTheFinalCountAndRate) {
  EXPECT_EQ(PlainOutputOf([] {
              Progress progress("indexing", "records", 1000, &FakeNow);
              for (int i = 0; i < 10; ++i) progress.Add(100);
              EXPECT_EQ(progress.done(), 1000);
              g_passed = std::chrono::seconds(2);
            }),
            "indexing: 1000 records in 2.0 s (500/s)\n");
}

TEST(Progress, RatesCountFromTheStartAndNotFromTheFirstUpdate) {
  EXPECT_EQ(PlainOutputOf([] {
              Progress progress("index", "bytes", 0, &FakeNow);
              g_passed = std::chrono::seconds(10);
              progress.Callback()(20 << 20, 50 << 20);
            }),
            "index:  40% of 50.0 MiB, 2.0 MiB/s, 15 s left\n"
            "index: 20.0 MiB in 10.0 s (2.0 MiB/s)\n");
}

TEST(Progress, UnknownTotalsPrintWhatIsDone) {
  EXPECT_EQ(PlainOutputOf([] {
              Progress progress("run", "batches", 0, &FakeNow);
              g_passed = std::chrono::seconds(6);
              progress.Update(3);
            }),
            "run: 3 batches in 6.0 s (0.5/s)\nrun: 3 batches in 6.0 s (0.5/s)\n");
}

TEST(Progress, ALimitInTimeTellsTheRestWhereTheWorkHasNoEnd) {
  EXPECT_EQ(PlainOutputOf([] {
              Progress progress("run", "batches", 0, &FakeNow);
              progress.SetLimit(60);
              g_passed = std::chrono::seconds(6);
              progress.Update(300);
            }),
            "run: 300 batches, 50/s, 54 s left\nrun: 300 batches in 6.0 s (50/s)\n");
}

TEST(Progress, TheEndThatComesFirstCounts) {
  EXPECT_EQ(PlainOutputOf([] {
              Progress progress("run", "batches", 1000, &FakeNow);
              progress.SetLimit(60);
              g_passed = std::chrono::seconds(5);
              progress.Update(0);
              g_passed = std::chrono::seconds(10);
              progress.Update(100);
              g_passed = std::chrono::seconds(20);
              progress.Update(500);
            }),
            "run: 0 batches, 0.0/s, 55 s left\n"
            "run: 100 batches, 10/s, 50 s left\n"
            "run:  50% of 1000 batches, 25/s, 20 s left\n"
            "run: 500 batches in 20.0 s (25/s)\n");
}

TEST(Progress, LongTimesAreInMinutesAndHours) {
  EXPECT_EQ(PlainOutputOf([] {
              Progress progress("train", "steps", 1000, &FakeNow);
              g_passed = std::chrono::seconds(119);
              progress.Update(500);
              g_passed = std::chrono::seconds(600);
              progress.Update(500);
              g_passed = std::chrono::hours(2);
              progress.Update(400);
            }),
            "train:  50% of 1000 steps, 4.2/s, 119 s left\n"
            "train:  50% of 1000 steps, 0.8/s, 10 min left\n"
            "train:  40% of 1000 steps, 0.1/s, 3 h 00 min left\n"
            "train: 400 steps in 7200.0 s (0.1/s)\n");
}

TEST(Progress, UnitsWithoutANameAreNotShown) {
  EXPECT_EQ(PlainOutputOf([] {
              Progress progress("bench", "", 1000, &FakeNow);
              g_passed = std::chrono::seconds(6);
              progress.Update(250);
            }),
            "bench:  25%, 18 s left\nbench: 6.0 s\n");
}

TEST(Progress, ShortWorkAndNoWorkAtAllPrintNothing) {
  EXPECT_EQ(PlainOutputOf([] {
              Progress progress("verify", "bytes", 100, &FakeNow);
              g_passed = std::chrono::milliseconds(999);
              progress.Update(100);
            }),
            "");
  EXPECT_EQ(PlainOutputOf([] {
              Progress nothing("index", "bytes", 0, &FakeNow);
              g_passed = std::chrono::seconds(60);
            }),
            "");
}

// Points standard error at a new pseudo-terminal and returns what was written to it.
std::string OnTerminal(void (*body)()) {
  int main_side = -1, terminal_side = -1;
  EXPECT_EQ(openpty(&main_side, &terminal_side, nullptr, nullptr, nullptr), 0);
  const int saved = dup(STDERR_FILENO);
  dup2(terminal_side, STDERR_FILENO);
  body();
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(terminal_side);
  // What was written comes in pieces; EIO, behind the last one, says that the other side is closed.
  std::string text;
  char piece[4096];
  for (ssize_t size; (size = read(main_side, piece, sizeof(piece))) > 0;) text.append(piece, size);
  close(main_side);
  return text;
}

TEST(Progress, ATerminalGetsARedrawnLine) {
  int main_side = -1, terminal_side = -1;
  if (openpty(&main_side, &terminal_side, nullptr, nullptr, nullptr) != 0) {
    GTEST_SKIP() << "no pseudo-terminals here";
  }
  close(main_side);
  close(terminal_side);
  const std::string text = OnTerminal([] {
    g_passed = std::chrono::seconds(0);
    Progress progress("training", "steps", 10, &FakeNow);
    g_passed = std::chrono::seconds(1);
    progress.Update(5);
    progress.Update(10);
  });
  EXPECT_THAT(text, StartsWith("\rtraining [####"));
  EXPECT_THAT(text, HasSubstr("\rtraining: 10 steps in 1.0 s (10/s)"));
  EXPECT_THAT(text, HasSubstr("\x1b[K"));
}

}  // namespace
}  // namespace millrace::cli
