#include "tests/messages.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/temp_folder.h"

namespace millrace::messages {
namespace {

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Messages, LinesAreSortedByCaseNumberAndKey) {
  const std::string text = "A.B#2 - two\nA.B#10 - ten\nA.B#key DATA_LOSS  a b \nB.A#1 - \n";
  const Lines lines = ParseLines(text);
  EXPECT_EQ(lines.size(), 4);
  EXPECT_EQ(lines.at("A.B#key"), "DATA_LOSS  a b ");
  EXPECT_EQ(FormatLines(lines), text);
  EXPECT_TRUE(ParseLines("").empty());
}

TEST(Messages, FoldersPortsAndProcessesOfARunAreReplaced) {
  const TempFolder folder;
  EXPECT_EQ(OneLine(folder / "a/b.tar: bad"), "{tmp}/a/b.tar: bad");
  EXPECT_EQ(OneLine(folder.path() + folder.path()), "{tmp}{tmp}");
  EXPECT_EQ(OneLine("in /tmp/keep/x and /tmp"), "in /tmp/keep/x and /tmp");
  EXPECT_EQ(OneLine(absl::StrCat(std::getenv("MILLRACE_SOURCE_DIR"), "/docs/x.md")),
            "{source}/docs/x.md");
  EXPECT_EQ(OneLine("127.0.0.1:40123, localhost:1, [::1]:22, 10.0.0.1:5"),
            "127.0.0.1:{port}, localhost:{port}, [::1]:{port}, 10.0.0.1:5");
  EXPECT_EQ(OneLine(absl::StrCat("process ", getpid(), " and pid 0")), "process {pid} and pid 0");
}

TEST(Messages, ATextIsOneLine) {
  EXPECT_EQ(OneLine("a\nb\\n\x01\x7F\xC3\xA9"), "a\\nb\\\\n\\x01\\x7f\xC3\xA9");
}

TEST(Messages, TheFolderIsTheOneBelowTests) {
  EXPECT_EQ(FolderOf("/home/tests/x/tests/base/work/workers_test.cc"), "base");
  EXPECT_EQ(FolderOf("../../tests/augment/a_test.cc"), "augment");
  EXPECT_EQ(FolderOf("elsewhere.cc"), "");
}

TEST(Messages, AnUpdateReplacesAllLinesOfACaseAndSingleLinesOfOthers) {
  const TempFolder folder;
  const std::string path = folder / "messages.golden";
  EXPECT_EQ(UpdateFile(path, {{"A.B#1", "- one"}, {"A.B#2", "- two"}, {"C.D#x", "- x"}}, {}), "");
  EXPECT_EQ(UpdateFile(path, {{"A.B#1", "- new"}, {"C.D#y", "- y"}}, {"A.B"}), "");
  EXPECT_EQ(ReadFile(path), "A.B#1 - new\nC.D#x - x\nC.D#y - y\n");
  EXPECT_NE(UpdateFile(folder / "no/messages.golden", {}, {}), "");
}

TEST(Messages, UpdatesAtTheSameTimeLoseNoLine) {
  const TempFolder folder;
  const std::string path = folder / "messages.golden";
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (int round = 0; round < 20; ++round) {
          const std::string name = absl::StrCat("T", i, ".R", round);
          EXPECT_EQ(UpdateFile(path, {{name + "#1", "- text"}}, {name}), "");
        }
      });
    }
  }
  EXPECT_EQ(ParseLines(ReadFile(path)).size(), 80);
}

TEST(ExpectMessage, TakesStatusesResultsAndTexts) {
  const absl::Status status = absl::DataLossError("bytes are missing");
  EXPECT_MESSAGE(status);
  EXPECT_MESSAGE(absl::StatusOr<int>(status), absl::StatusCode::kDataLoss);
  EXPECT_MESSAGE("a text alone");
  EXPECT_MESSAGE(std::string("a text alone"), "named");
  EXPECT_MESSAGE(status, absl::StatusCode::kDataLoss, "both");
  HideInMessages("1f2e", "token");
  for (const char* const text : {"token 1f2e", "token 1f2e"}) EXPECT_MESSAGE(text, "token");
}

TEST(ExpectMessage, FailsWithoutAnErrorByAnotherCodeAndByAnotherText) {
  if (const char* updates = std::getenv("MILLRACE_UPDATE_MESSAGES"); updates != nullptr) {
    GTEST_SKIP() << "nothing is compared in an update";
  }
  EXPECT_NONFATAL_FAILURE(EXPECT_MESSAGE(absl::OkStatus(), "ok"), "no error");
  EXPECT_NONFATAL_FAILURE(EXPECT_MESSAGE("no line has this key", "none"), "not there");
  EXPECT_NONFATAL_FAILURE(
      EXPECT_MESSAGE(absl::DataLossError("x"), absl::StatusCode::kAborted, "code"),
      "the code is DATA_LOSS; expected ABORTED");
}

// Instances share the line of their case.
class ExpectMessages : public ::testing::TestWithParam<int> {};

TEST_P(ExpectMessages, InstancesShareALine) { EXPECT_MESSAGE("of every instance"); }

INSTANTIATE_TEST_SUITE_P(All, ExpectMessages, ::testing::Values(1, 2));

template <typename T>
class ExpectTypedMessages : public ::testing::Test {};
using Types = ::testing::Types<int, char>;
TYPED_TEST_SUITE(ExpectTypedMessages, Types);

TYPED_TEST(ExpectTypedMessages, TypesShareALine) { EXPECT_MESSAGE("of every type"); }

}  // namespace
}  // namespace millrace::messages
