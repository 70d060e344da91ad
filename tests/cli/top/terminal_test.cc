#include "cli/top/terminal.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::cli {
namespace {

const std::vector<std::string> kLines = {"one", "two", "three"};

TEST(WholeText, BeginsAtTheTopAndClearsTheRest) {
  EXPECT_EQ(WholeText(kLines, {}), "\x1b[Hone\x1b[K\r\ntwo\x1b[K\r\nthree\x1b[K\r\n\x1b[J");
}

TEST(WholeText, LinesThatDoNotFitAreLeftOut) {
  EXPECT_EQ(WholeText(kLines, {.columns = 80, .rows = 3}),
            "\x1b[Hone\x1b[K\r\ntwo\x1b[K\r\n\x1b[J");
}

TEST(BelowText, ReturnsToAnEmptyLineInFrontOfTheLines) {
  EXPECT_EQ(BelowText(kLines, {}),
            "\r\x1b[K\r\none\x1b[K\r\ntwo\x1b[K\r\nthree\x1b[K\r\n\x1b[J\x1b[4A");
  EXPECT_EQ(BelowText(kLines, {.columns = 80, .rows = 4}),
            "\r\x1b[K\r\none\x1b[K\r\ntwo\x1b[K\r\n\x1b[J\x1b[3A");
}

TEST(TerminalSizeOf, IsTheUsualOneWhereThereIsNoTerminal) {
  EXPECT_EQ(TerminalSizeOf(-1).columns, 80);
  EXPECT_EQ(TerminalSizeOf(-1).rows, 24);
}

}  // namespace
}  // namespace millrace::cli
