#include <gmock/gmock.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/predicate.h"
#include "tests/messages.h"
#include "tests/pipeline/predicate/predicate_fixture.h"

// What is refused, and how it is told.

namespace millrace::pipeline {
namespace {

TEST(PredicateParse, ErrorsNameTheColumn) {
  const std::vector<std::string> cases = {
      "",
      "x",
      "x == ",
      "x = 1",
      "x == 1 && y == 2",
      "x == 1 AND y == 2",
      "0 < x < 3",
      "x == 1 in (2)",
      "x in (1) == 2",
      "image/label == 1",
      "größe == 1",
      "'größe' == x and y ? 1",
      "x in 3",
      "x in ()",
      "x in (y)",
      "x in (1",
      "x not 3",
      "3 in (1, 2)",
      "1 == 1",
      "(x == 1",
      "(x) == 1",
      "x == 1)",
      "x[-1] == 2",
      "x[1.0] == 2",
      "x[1 == 2",
      "len(3) == 2",
      "len(x == 2",
      "x == 'abc",
      "x == 'a\\q'",
      "x == 'a\\x1'",
      "x == 'a\\",
      "`x == 3",
      "`` == 3",
      "x == 12abc",
      "x == 1.2.3",
      "x == 99999999999999999999",
      "x == 1e999",
      "and == 1",
      "x % == 1",
      "x / 2 == 1",
      "x // 2",
      "1 % 2 == 1",
      "min(x) == 1",
      "max(x, ) == 1",
      "max(x, 1 == 1",
      "abs(x, 1) == 1",
      "abs() == 1",
      "starts_with(x) == 1",
      "starts_with(x, 'a'",
      "starts_with(x, 'a') == 1",
      "starts_with('ab', 'a')",
      "x in (1 % 2)",
      "abs(x - 6) < 1",
      "abs(x -6) < 1",
      "x -6 < 1",
      "x + 6 < 1",
      std::string("x == 1\0", 7),
  };
  for (const std::string& text : cases) {
    const absl::Status status = Predicate::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_MESSAGE(status) << text;
  }
}

TEST(PredicateParse, DepthAndLengthAreLimited) {
  const auto nested = [](int depth) {
    return std::string(depth, '(') + "x == 1" + std::string(depth, ')');
  };
  EXPECT_TRUE(Predicate::Parse(nested(64)).ok());
  EXPECT_MESSAGE(Predicate::Parse(nested(65)).status());
  std::string nots;
  for (int i = 0; i < 10000; ++i) nots += "not ";
  EXPECT_FALSE(Predicate::Parse(nots + "x == 1").ok());
  std::string wide = "x == 0";
  while (wide.size() < 60000) wide += " or x == 1";  // wide is not deep
  EXPECT_TRUE(Predicate::Parse(wide).ok());
  EXPECT_EQ(Counting(3).Evaluate(wide), "yyn");
  EXPECT_FALSE(Predicate::Parse(wide + std::string(6000, ' ')).ok());
  const auto calls = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "abs(";
    return text + "x" + std::string(depth, ')') + " == 1";
  };
  EXPECT_TRUE(Predicate::Parse(calls(64)).ok());
  EXPECT_MESSAGE(Predicate::Parse(calls(65)).status());
  std::string steps = "x";
  for (int i = 0; i < 10000; ++i) steps += " % 7";
  EXPECT_FALSE(Predicate::Parse(steps + " == 1").ok());
}

TEST(PredicateParse, RandomTextNeverCrashes) {
  std::mt19937 random(4);
  const std::vector<std::string> pieces = {
      "x",  "(",    ")", "[",   "]",   ",",    "==",   "<",           "in", "not",
      "or", "and",  "1", "2.5", "'s'", "`n`",  "\\",   "'",           "-",  "len",
      "\"", "\xC3", " ", "%",   "//",  "min(", "abs(", "starts_with("};
  int parsed = 0;
  for (int i = 0; i < 60000; ++i) {
    std::string text;
    for (unsigned n = random() % 9; n > 0; --n) text += pieces[random() % pieces.size()] + " ";
    const auto predicate = Predicate::Parse(text);
    parsed += predicate.ok() ? 1 : 0;
    EXPECT_TRUE(predicate.ok() || predicate.status().ToString().find("column ") != text.npos);
  }
  EXPECT_GT(parsed, 5);
}

TEST(PredicateResolve, ErrorsNameFieldColumnAndAdvice) {
  const Table table(Schema({{"label", DType::kI64, {}},
                            {"ids", DType::kI64, {Shape::kUnknown}},
                            {"box", DType::kF32, {4}},
                            {"image", DType::kU8, {28, 28}},
                            {"text", DType::kBytes, {Shape::kUnknown}}}),
                    {});
  const std::vector<std::string> cases = {
      "box[0] > 1 and labl == 1",
      "ids == 1",
      "1 == image",
      "image[0] == 1",
      "label[0] == 1",
      "text[0] == 1",
      "box[4] == 1",
      "len(label) == 1",
      "label == 'a'",
      "text == 3",
      "text in ('a', 3)",
      "label in (3, 'a')",
      "text == label",
      "text % 2 == 1",
      "min(label, text) == 1",
      "abs(labl) == 1",
      "max(label, ids) == 1",
      "label % 2 == 'a'",
      "starts_with(label, 'a')",
      "starts_with(text, 3)",
      "starts_with(label, 3)",
  };
  for (const std::string& text : cases) {
    const absl::Status status = table.ResolveError(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_MESSAGE(status) << text;
  }
  EXPECT_TRUE(table.ResolveError("len(image) == 28 and len(text) < 9").ok());
}

}  // namespace
}  // namespace millrace::pipeline
