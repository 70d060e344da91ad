#include <gmock/gmock.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/predicate.h"
#include "tests/pipeline/predicate/predicate_fixture.h"

// What is refused, and how it is told.

namespace millrace::pipeline {
namespace {

using testing::HasSubstr;

TEST(PredicateParse, ErrorsNameTheColumn) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "column 1: expected a field, a number or a string, found the end"},
      {"x", "column 2: expected a comparison or in after x, found the end"},
      {"x == ", "column 6: expected a field"},
      {"x = 1", "column 3: unexpected character =; a comparison is written =="},
      {"x == 1 && y == 2", "column 8: unexpected character &; write and"},
      {"x == 1 AND y == 2", "column 8: expected and, or, or the end, found \"AND\""},
      {"0 < x < 3", "column 7: comparisons cannot be chained"},
      {"x == 1 in (2)", "column 8: comparisons cannot be chained"},
      {"x in (1) == 2", "column 10: comparisons cannot be chained"},
      {"image/label == 1", "column 6: unexpected character /; a field's name with such"},
      {"größe == 1", "column 3: unexpected character \\xc3"},
      {"'größe' == x and y ? 1", "column 20: unexpected character ?"},
      {"x in 3", "column 6: expected ( and a list of values, found \"3\""},
      {"x in ()", "column 7: expected a number or a string"},
      {"x in (y)", "column 7: expected a number or a string"},
      {"x in (1", "column 8: expected , or )"},
      {"x not 3", "column 7: expected in"},
      {"3 in (1, 2)", "column 1: what stands before in must be a field"},
      {"1 == 1", "column 1: neither side of the comparison is a field"},
      {"(x == 1", "column 8: expected and, or, or ), found the end"},
      {"(x) == 1", "column 3: expected a comparison"},
      {"x == 1)", "column 7: expected and, or, or the end"},
      {"x[-1] == 2", "column 3: expected the number of an element, from 0"},
      {"x[1.0] == 2", "column 3: expected the number of an element, from 0"},
      {"x[1 == 2", "column 5: expected ]"},
      {"len(3) == 2", "column 5: expected a field, found"},
      {"len(x == 2", "column 7: expected )"},
      {"x == 'abc", "column 6: string not closed"},
      {"x == 'a\\q'", "column 8: unknown escape; there are \\n \\t \\r \\\\ \\' \\\" \\` \\xHH"},
      {"x == 'a\\x1'", "column 8: \\x wants two hexadecimal digits"},
      {"x == 'a\\", "column 8: unknown escape"},
      {"`x == 3", "column 1: backquote not closed"},
      {"`` == 3", "column 1: empty name"},
      {"x == 12abc", "column 6: not a number"},
      {"x == 1.2.3", "column 6: not a number"},
      {"x == 99999999999999999999", "column 6: number out of range of int64"},
      {"x == 1e999", "column 6: number out of range of float64"},
      {"and == 1", "column 1: expected a field, a number or a string, found \"and\""},
      {std::string("x == 1\0", 7), "column 7: unexpected character \\x00"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = Predicate::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), testing::StartsWith(message)) << text;
  }
}

TEST(PredicateParse, DepthAndLengthAreLimited) {
  const auto nested = [](int depth) {
    return std::string(depth, '(') + "x == 1" + std::string(depth, ')');
  };
  EXPECT_TRUE(Predicate::Parse(nested(64)).ok());
  EXPECT_THAT(std::string(Predicate::Parse(nested(65)).status().message()),
              HasSubstr("column 65: more than 64 parentheses and nots"));
  std::string nots;
  for (int i = 0; i < 10000; ++i) nots += "not ";
  EXPECT_FALSE(Predicate::Parse(nots + "x == 1").ok());
  std::string wide = "x == 0";
  while (wide.size() < 60000) wide += " or x == 1";  // wide is not deep
  EXPECT_TRUE(Predicate::Parse(wide).ok());
  EXPECT_EQ(Counting(3).Evaluate(wide), "yyn");
  EXPECT_FALSE(Predicate::Parse(wide + std::string(6000, ' ')).ok());
}

TEST(PredicateParse, RandomTextNeverCrashes) {
  std::mt19937 random(4);
  const std::vector<std::string> pieces = {"x",  "(",   ")",  "[",   "]",  ",",    "==",  "<",
                                           "in", "not", "or", "and", "1",  "2.5",  "'s'", "`n`",
                                           "\\", "'",   "-",  "len", "\"", "\xC3", " "};
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
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
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"box[0] > 1 and labl == 1", "column 16: no field \"labl\"; did you mean \"label\"?"},
      {"ids == 1", "column 1: field \"ids\" is int64[?], not one value; write ids[0]"},
      {"1 == image", "column 6: field \"image\" is uint8[28, 28], not one value"},
      {"image[0] == 1", "column 1: field \"image\" is uint8[28, 28]; elements are those of"},
      {"label[0] == 1", "column 1: field \"label\" is int64[]; elements are those of"},
      {"text[0] == 1", "column 1: field \"text\" is bytes, which has no elements"},
      {"box[4] == 1", "column 1: field \"box\" is float32[4]; it has no element 4"},
      {"len(label) == 1", "column 1: field \"label\" is int64[], one value without a length"},
      {"label == 'a'", "column 10: cannot compare label, a number, with \"a\", bytes"},
      {"text == 3", "column 9: cannot compare text, bytes, with 3, a number"},
      {"text in ('a', 3)", "column 15: cannot compare text, bytes, with 3, a number"},
      {"label in (3, 'a')", "column 14: cannot compare label, a number, with \"a\", bytes"},
      {"text == label", "column 9: cannot compare text, bytes, with label, a number"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = table.ResolveError(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), testing::StartsWith(message)) << text;
  }
  EXPECT_TRUE(table.ResolveError("len(image) == 28 and len(text) < 9").ok());
}

}  // namespace
}  // namespace millrace::pipeline
