#include "cli/doctor/child.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace millrace::cli::doctor {
namespace {

using Send = std::function<void(std::string_view)>;

ChildEnd Ran(const std::function<void(const Send&)>& work, const ChildWatch& watch) {
  const auto end = RunInChild(work, watch);
  EXPECT_TRUE(end.ok()) << end.status();
  return end.ok() ? *end : ChildEnd{};
}

// Never gives the child up: a hang is ctest's.
ChildWatch Patient() {
  return {.gives_up = [](std::string_view, double) { return false; }};
}

TEST(ChildTest, TheLastLineIsThatOfTheEnd) {
  const ChildEnd end = Ran(
      [](const Send& send) {
        send("first");
        send("second");
      },
      Patient());
  EXPECT_EQ(end.last_line, "second");
  EXPECT_EQ(end.silent_seconds, 0);
  EXPECT_EQ(end.signal, 0);
}

TEST(ChildTest, ALineMayBeLongerThanAPipe) {
  const std::string line(1 << 20, 'x');
  const ChildEnd end = Ran(
      [&line](const Send& send) {
        send("before");
        send(line);
      },
      Patient());
  EXPECT_EQ(end.last_line, line);
}

TEST(ChildTest, AChildThatCrashesNamesItsSignalAndKeepsItsLine) {
  const ChildEnd end = Ran(
      [](const Send& send) {
        send("about to crash");
        ::signal(SIGSEGV, SIG_DFL);  // a sanitizer has a handler of its own
        ::raise(SIGSEGV);
      },
      Patient());
  EXPECT_EQ(end.last_line, "about to crash");
  EXPECT_EQ(end.signal, SIGSEGV);
}

TEST(ChildTest, AnExceptionIsACrash) {
  const ChildEnd end = Ran([](const Send&) { throw std::runtime_error("x"); }, Patient());
  EXPECT_EQ(end.last_line, "");
  EXPECT_EQ(end.signal, SIGABRT);
}

// It waits for ever, and only a kill ends it.
TEST(ChildTest, AChildThatHangsIsGivenUpAndKilled) {
  pid_t child = 0;
  const ChildEnd end = Ran(
      [](const Send& send) {
        ::signal(SIGTERM, SIG_IGN);
        send(std::to_string(::getpid()));
        while (true) ::pause();
      },
      {.gives_up = [&child](std::string_view last_line, double) {
        child = std::atoi(std::string(last_line).c_str());
        return !last_line.empty();
      }});
  EXPECT_GT(end.silent_seconds, 0);
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(::kill(child, 0), -1);  // it is gone
}

TEST(ChildTest, TheSilenceCountsFromTheLastLine) {
  int turns = 0;
  Ran(
      [](const Send&) {
        while (true) ::pause();
      },
      {.gives_up = [&turns, before = 0.0](std::string_view last_line,
                                          double silent_seconds) mutable {
        EXPECT_EQ(last_line, "");
        EXPECT_GT(silent_seconds, before);
        before = silent_seconds;
        return ++turns == 3;
      }});
  EXPECT_EQ(turns, 3);
}

TEST(ChildTest, TicksComeWhileItRuns) {
  int ticks = 0;
  ChildWatch watch = Patient();
  watch.tick = [&ticks] { ++ticks; };
  Ran([](const Send& send) { send("x"); }, watch);
  EXPECT_GT(ticks, 0);
}

// A reader of this program's output would wait for a child that is left behind.
TEST(ChildTest, TheChildWritesToNoStandardStream) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Ran(
      [](const Send& send) {
        std::puts("on standard output");
        std::fputs("on standard error\n", stderr);
        std::fflush(nullptr);
        send("done");
      },
      Patient());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace millrace::cli::doctor
