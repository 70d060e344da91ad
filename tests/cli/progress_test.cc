#include "cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace millrace::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Progress, PlainOutputIsOneLineWithTheFinalCount) {
  testing::internal::CaptureStderr();
  {
    Progress progress("indexing", "records", 1000);
    for (int i = 0; i < 10; ++i) progress.Add(100);
    EXPECT_EQ(progress.done(), 1000);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, StartsWith("indexing: 1000 records in "));
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST(Progress, UnknownTotalsAndNoWorkAtAllPrintTheLastState) {
  testing::internal::CaptureStderr();
  {
    Progress progress("reading", "bytes", 0);
    progress.Update(42);
  }
  { Progress nothing("waiting", "steps", 5); }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("reading: 42 bytes in "));
  EXPECT_THAT(text, HasSubstr("waiting: 0 steps in "));
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
  std::string text(4096, '\0');
  const ssize_t size = read(main_side, text.data(), text.size());
  text.resize(std::max<ssize_t>(size, 0));
  close(terminal_side);
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
    Progress progress("training", "steps", 10);
    progress.Update(10);
  });
  EXPECT_THAT(text, StartsWith("\rtraining: 10 steps in "));
  EXPECT_THAT(text, HasSubstr("\x1b[K"));
}

}  // namespace
}  // namespace millrace::cli
