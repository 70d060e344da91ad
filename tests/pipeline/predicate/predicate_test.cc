#include "pipeline/predicate.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/record_error.h"
#include "tests/messages.h"
#include "tests/pipeline/predicate/predicate_fixture.h"

namespace millrace::pipeline {
namespace {

using testing::ElementsAre;

TEST(Predicate, ComparesAndLists) {
  Table table = Counting(5);
  EXPECT_EQ(table.Evaluate("x == 2"), "nnynn");
  EXPECT_EQ(table.Evaluate("x != 2"), "yynyy");
  EXPECT_EQ(table.Evaluate("x < 2"), "yynnn");
  EXPECT_EQ(table.Evaluate("x <= 2"), "yyynn");
  EXPECT_EQ(table.Evaluate("x > 2"), "nnnyy");
  EXPECT_EQ(table.Evaluate("x >= 2"), "nnyyy");
  EXPECT_EQ(table.Evaluate("2 < x"), "nnnyy");
  EXPECT_EQ(table.Evaluate("2 >= x"), "yyynn");
  EXPECT_EQ(table.Evaluate("x in (3, 1, 1,)"), "nynyn");
  EXPECT_EQ(table.Evaluate("x not in (3, 1)"), "ynyny");
  EXPECT_EQ(table.Evaluate("x in (1.5, 2.0, -1e3)"), "nnynn");
  EXPECT_EQ(table.Evaluate("x < 1.5"), "yynnn");
  EXPECT_EQ(table.Evaluate("x == x"), "yyyyy");
}

TEST(Predicate, AndBindsCloserThanOrAndNotCloserThanAnd) {
  Table table = Counting(4);
  EXPECT_EQ(table.Evaluate("x == 0 or x == 1 and x == 2"), "ynnn");
  EXPECT_EQ(table.Evaluate("(x == 0 or x == 1) and x != 0"), "nynn");
  EXPECT_EQ(table.Evaluate("not x == 0 and x < 2"), "nynn");
  EXPECT_EQ(table.Evaluate("not (x == 0 and x < 2)"), "nyyy");
  EXPECT_EQ(table.Evaluate("not not x == 0"), "ynnn");
  EXPECT_EQ(table.Evaluate("not x in (0, 1) or x == 0"), "ynyy");
}

// S-CUT-2
TEST(Predicate, IntegersCompareExactlyAndFloatsAsDouble) {
  const int64_t big = std::numeric_limits<int64_t>::max();
  Table table(Schema({{"a", DType::kI64, {}}, {"b", DType::kI64, {1}}, {"f", DType::kF32, {}}}),
              {{{"a", Ints({big})}, {"b", Ints({big - 1})}, {"f", Floats({0.1})}},
               {{"a", Ints({-3})}, {"b", Ints({-3})}, {"f", Floats({-3})}}});
  EXPECT_EQ(table.Evaluate("a == b"), "ny");
  EXPECT_EQ(table.Evaluate("a == 9223372036854775807"), "yn");
  EXPECT_EQ(table.Evaluate("b in (9223372036854775807)"), "nn");
  EXPECT_EQ(table.Evaluate("b == 9223372036854775807.0"), "yn");  // as double they are the same
  EXPECT_EQ(table.Evaluate("f == 0.1"), "nn");                    // float32's 0.1 is another number
  EXPECT_EQ(table.Evaluate("f > 0.1"), "yn");
  EXPECT_EQ(table.Evaluate("a == f"), "ny");
  EXPECT_EQ(table.Evaluate("f == -3"), "ny");
}

// S-CUT-2
TEST(Predicate, NotANumberIsOnlyUnequal) {
  Table table(Schema({{"f", DType::kF64, {}}}), {{{"f", Floats({std::nan("")})}}});
  EXPECT_EQ(table.Evaluate("f == f"), "n");
  EXPECT_EQ(table.Evaluate("f < 1"), "n");
  EXPECT_EQ(table.Evaluate("f >= 1"), "n");
  EXPECT_EQ(table.Evaluate("f != f"), "y");
  EXPECT_EQ(table.Evaluate("f in (-1, 0.0, 1)"), "n");
  EXPECT_EQ(table.Evaluate("f not in (0, 1)"), "y");
  EXPECT_EQ(table.Evaluate("not f < 1"), "y");
}

TEST(Predicate, EveryNumberTypeIsRead) {
  // The bits of float16 1.5, the smallest subnormal and -infinity; of bfloat16 -2.5.
  Table table(Schema({{"u8", DType::kU8, {}},
                      {"i32", DType::kI32, {}},
                      {"half", DType::kF16, {3}},
                      {"bf", DType::kBF16, {}},
                      {"f64", DType::kF64, {}}}),
              {{{"u8", Ints({255})},
                {"i32", Ints({-70000})},
                {"half", Ints({0x3E00, 0x0001, 0xFC00})},
                {"bf", Ints({0xC020})},
                {"f64", Floats({1e300})}}});
  EXPECT_EQ(table.Evaluate("u8 == 255"), "y");
  EXPECT_EQ(table.Evaluate("i32 == -70000"), "y");
  EXPECT_EQ(table.Evaluate("half[0] == 1.5"), "y");
  EXPECT_EQ(table.Evaluate("half[1] == 5.960464477539063e-08"), "y");
  EXPECT_EQ(table.Evaluate("half[2] < -1e308"), "y");
  EXPECT_EQ(table.Evaluate("bf == -2.5"), "y");
  EXPECT_EQ(table.Evaluate("f64 == 1e300"), "y");
}

TEST(Predicate, StringsCompareBytewise) {
  Table table(
      Schema({{"s", DType::kBytes, {Shape::kUnknown}}, {"image/text", DType::kBytes, {-1}}}),
      {{{"s", std::string("cat")}, {"image/text", std::string("a\n\"`\xFF")}},
       {{"s", std::string()}, {"image/text", std::string("cat")}}});
  EXPECT_EQ(table.Evaluate("s == \"cat\""), "yn");
  EXPECT_EQ(table.Evaluate("s in ('dog', 'cat', '')"), "yy");
  EXPECT_EQ(table.Evaluate("s < 'd'"), "yy");
  EXPECT_EQ(table.Evaluate("`image/text` == 'a\\n\\\"\\`\\xff'"), "yn");
  EXPECT_EQ(table.Evaluate("`image/text` < 'b'"), "yn");
  EXPECT_EQ(table.Evaluate("'b' < `image/text`"), "ny");
  EXPECT_EQ(table.Evaluate("len(s) == 3"), "yn");
  EXPECT_EQ(table.Evaluate("s != `image/text`"), "yy");
}

// S-CUT-2. What defines them: q * b + r == a, and r is 0 or lies on b's side of 0, nearer to it.
TEST(Predicate, FloorDivisionAndItsRemainderFitTogether) {
  std::vector<std::map<std::string, Value>> rows;
  for (int64_t a = -9; a <= 9; ++a) rows.push_back({{"a", Ints({a})}});
  Table table(Schema({{"a", DType::kI64, {}}}), rows);
  for (int64_t b = -4; b <= 4; ++b) {
    if (b == 0) continue;
    for (int64_t a = -9; a <= 9; ++a) {
      int64_t q = -20;
      while (a - q * b < std::min<int64_t>(b + 1, 0) || a - q * b > std::max<int64_t>(b - 1, 0)) {
        ++q;
      }
      std::string only_a(19, 'n');
      only_a[a + 9] = 'y';
      const std::string divisor = std::to_string(b);
      EXPECT_EQ(table.Evaluate("a == " + std::to_string(a) + " and a // " + divisor +
                               " == " + std::to_string(q) + " and a % " + divisor +
                               " == " + std::to_string(a - q * b)),
                only_a);
    }
  }
}

// S-CUT-2. The expected values are Python's.
TEST(Predicate, ArithmeticOfFloatingNumbersIsPythons) {
  Table table(Schema({{"x", DType::kF64, {}}, {"n", DType::kI32, {}}}),
              {{{"x", Floats({-5.5})}, {"n", Ints({7})}},
               {{"x", Floats({0.3})}, {"n", Ints({-7})}},
               {{"x", Floats({std::nan("")})}, {"n", Ints({0})}}});
  EXPECT_EQ(table.Evaluate("x % 2 == 0.5 or x % 2 == 0.3"), "yyn");
  EXPECT_EQ(table.Evaluate("x // 2 == -3 or x // 2 == 0"), "yyn");
  EXPECT_EQ(table.Evaluate("x // 0.1 == -55 or x // 0.1 == 2"), "yyn");
  EXPECT_EQ(table.Evaluate("x % -2 == -1.5 or x % -2 == -1.7"), "yyn");
  EXPECT_EQ(table.Evaluate("abs(x) == 5.5"), "ynn");
  EXPECT_EQ(table.Evaluate("min(x, n) == -5.5 or min(x, n) == -7"), "yyn");
  EXPECT_EQ(table.Evaluate("max(n, x) == max(n, x)"), "yyn");
  EXPECT_EQ(table.Evaluate("max(n, 3, abs(n) % 4) in (7, 3)"), "yyy");
  // All whole: computed as int64, also beside a floating number.
  EXPECT_EQ(table.Evaluate("n // 2 == 3.0 or n // 2 == -4.0"), "yyn");
  EXPECT_EQ(table.Evaluate("n % 4 // 2 == 1"), "ynn");
  EXPECT_EQ(table.Evaluate("5 < n % 100"), "yyn");
}

// S-CUT-3
TEST(Predicate, ACallWithoutAValueFailsOnlyRowsWhoseOutcomeNeedsIt) {
  const int64_t least = std::numeric_limits<int64_t>::min();
  Table table(Schema({{"a", DType::kI64, {}},
                      {"b", DType::kI64, {}},
                      {"f", DType::kF32, {}},
                      {"v", DType::kI64, {Shape::kUnknown}}}),
              {{{"a", Ints({6})}, {"b", Ints({4})}, {"f", Floats({2})}, {"v", Ints({1})}},
               {{"a", Ints({6})}, {"b", Ints({0})}, {"f", Floats({0})}, {"v", Ints({})}},
               {{"a", Ints({least})}, {"b", Ints({-1})}, {"f", Floats({1})}, {"v", Ints({1})}}});
  EXPECT_EQ(table.Evaluate("a % b == 2"), "y!n");
  EXPECT_MESSAGE(table.last_error());
  EXPECT_EQ(GetRecordError(table.last_error())->reason, RecordErrorReason::kFeature);
  EXPECT_EQ(table.Evaluate("a // b == 1"), "y!!");
  EXPECT_EQ(table.Evaluate("abs(a) == 6"), "yy!");
  EXPECT_MESSAGE(table.last_error());
  EXPECT_EQ(table.Evaluate("a % f == 0"), "y!y");
  EXPECT_EQ(table.Evaluate("b == 0 or a // b == 1"), "yy!");
  EXPECT_EQ(table.Evaluate("a // b == 1 and b > 0"), "ynn");
  EXPECT_EQ(table.Evaluate("max(a, v[0]) == 6"), "y!n");
  EXPECT_MESSAGE(table.last_error());
}

TEST(Predicate, BeginningsAreBytes) {
  Table table(
      Schema({{"s", DType::kBytes, {Shape::kUnknown}}, {"t", DType::kBytes, {Shape::kUnknown}}}),
      {{{"s", std::string("n01440764/1.jpg")}, {"t", std::string("n01")}},
       {{"s", std::string("n0")}, {"t", std::string("n01")}},
       {{"s", std::string()}, {"t", std::string()}}});
  EXPECT_EQ(table.Evaluate("starts_with(s, 'n0144')"), "ynn");
  EXPECT_EQ(table.Evaluate("not starts_with(s, \"n\") or starts_with(s, 'n01')"), "yny");
  EXPECT_EQ(table.Evaluate("starts_with(s, t)"), "yny");
  EXPECT_EQ(table.Evaluate("starts_with('n01', t)"), "yyy");
}

TEST(Predicate, NamesOfFunctionsMayBeFields) {
  Table table(Schema({{"min", DType::kI64, {}}, {"starts_with", DType::kI64, {}}}),
              {{{"min", Ints({1})}, {"starts_with", Ints({2})}}});
  EXPECT_EQ(table.Evaluate("min == 1 and starts_with == 2 and max(min, starts_with) == 2"), "y");
  EXPECT_THAT(Predicate::Parse("max(b, a) % c == min(a, 3)")->fields(), ElementsAre("b", "a", "c"));
}

TEST(Predicate, NamesOfKeywordsStandInBackquotesAndLenMayBeAField) {
  Table table(Schema({{"in", DType::kI64, {}}, {"len", DType::kI64, {}}}),
              {{{"in", Ints({1})}, {"len", Ints({2})}}});
  EXPECT_EQ(table.Evaluate("`in` == 1 and len == 2"), "y");
}

// S-CUT-3
TEST(Predicate, AMissingElementFailsOnlyRowsWhoseOutcomeNeedsIt) {
  Table table(Schema({{"v", DType::kI64, {Shape::kUnknown}}, {"x", DType::kI64, {}}}),
              {{{"v", Ints({5, 6, 7})}, {"x", Ints({0})}},
               {{"v", Ints({})}, {"x", Ints({0})}},
               {{"v", Ints({5})}, {"x", Ints({1})}}});
  EXPECT_EQ(table.Evaluate("v[2] == 7"), "y!!");
  EXPECT_EQ(table.Evaluate("not v[2] == 7"), "n!!");
  EXPECT_EQ(table.Evaluate("len(v) > 2 and v[2] == 7"), "ynn");
  EXPECT_EQ(table.Evaluate("v[2] == 7 and len(v) > 2"), "ynn");
  EXPECT_EQ(table.Evaluate("x == 1 or v[2] == 7"), "y!y");
  EXPECT_EQ(table.Evaluate("v[2] == 7 or x == 1"), "y!y");
  EXPECT_EQ(table.Evaluate("v[1] in (6)"), "y!!");
  EXPECT_EQ(table.Evaluate("v[0] != v[1]"), "y!!");
  EXPECT_EQ(table.last_error().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(table.last_error());
  EXPECT_EQ(GetRecordError(table.last_error())->reason, RecordErrorReason::kFeature);
}

TEST(Predicate, FailedRowsAreLeftAlone) {
  RunArena arena;
  millrace::Run run(arena, 1, 0, std::vector<SampleId>(2));
  Column& column = run.Add("x", DType::kI64);
  *static_cast<int64_t*>(run.Allocate(column, 0, {})) = 1;
  run.Fail(1, absl::DataLossError("bad"));
  auto predicate = Predicate::Parse("x == 1");
  ASSERT_TRUE(predicate->Resolve(Schema({{"x", DType::kI64, {}}})).ok());
  std::vector<uint8_t> keep = {9, 9};
  predicate->Evaluate(run, keep);
  EXPECT_THAT(keep, ElementsAre(1, 9));
  EXPECT_EQ(run.status(1), absl::DataLossError("bad"));
}

TEST(Predicate, CopiesResolveApart) {
  auto first = Predicate::Parse("x == 1");
  Predicate second = *first;
  ASSERT_TRUE(first->Resolve(Schema({{"x", DType::kI64, {}}})).ok());
  ASSERT_TRUE(second.Resolve(Schema({{"x", DType::kF32, {}}})).ok());
  Table table = Counting(2);
  EXPECT_EQ(table.Evaluate(first->text()), "ny");
}

TEST(Predicate, FieldsAreToldInOrderOfFirstUse) {
  EXPECT_THAT(
      Predicate::Parse("1 < b and (len(a) == 2 or `c d`[1] == b) and a[0] in (1)")->fields(),
      ElementsAre("b", "a", "c d"));
  EXPECT_THAT(Predicate::Parse("y == x")->fields(), ElementsAre("y", "x"));
}

}  // namespace
}  // namespace millrace::pipeline
