#include "pipeline/predicate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "base/record_error.h"

namespace millrace::pipeline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A value of a field: bytes, or numbers that are stored in the field's dtype.
using Value = std::variant<std::string, std::vector<int64_t>, std::vector<double>>;

template <typename T>
void Store(const std::vector<double>& from, void* out) {
  for (size_t i = 0; i < from.size(); ++i) static_cast<T*>(out)[i] = static_cast<T>(from[i]);
}
template <typename T>
void Store(const std::vector<int64_t>& from, void* out) {
  for (size_t i = 0; i < from.size(); ++i) static_cast<T*>(out)[i] = static_cast<T>(from[i]);
}

// Rows of fields for predicates to look at.
class Table {
 public:
  Table(Schema schema, std::vector<std::map<std::string, Value>> rows)
      : schema_(std::move(schema)),
        rows_(std::move(rows)),
        run_(arena_, 1, 100, std::vector<SampleId>(rows_.size())) {
    for (const Field& field : schema_.fields()) {
      run_.Add(field.name, field.dtype);
      for (size_t row = 0; row < rows_.size(); ++row) Put(field, static_cast<int64_t>(row));
    }
  }

  // One letter a row: 'y', 'n', or '!' for a row that failed.
  std::string Evaluate(std::string_view text) {
    auto predicate = Predicate::Parse(text);
    EXPECT_TRUE(predicate.ok()) << predicate.status();
    if (!predicate.ok()) return "";
    const absl::Status status = predicate->Resolve(schema_);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return "";
    std::vector<int64_t> all(rows_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    millrace::Run run = run_.Select(all, std::vector<SampleId>(all.size()));
    std::vector<uint8_t> keep(all.size(), 7);
    predicate->Evaluate(run, keep);
    std::string outcome;
    for (size_t i = 0; i < all.size(); ++i) {
      const bool ok = run.ok(all[i]);
      outcome += !ok ? '!' : keep[i] == 1 ? 'y' : keep[i] == 0 ? 'n' : '?';
      if (!ok) last_error_ = run.status(all[i]);
    }
    return outcome;
  }
  absl::Status ResolveError(std::string_view text) const {
    auto predicate = Predicate::Parse(text);
    EXPECT_TRUE(predicate.ok()) << predicate.status();
    return predicate->Resolve(schema_);
  }
  const absl::Status& last_error() const { return last_error_; }

 private:
  void Put(const Field& field, int64_t row) {
    Column& column = const_cast<Column&>(run_.Get(field.name));
    const Value& value = rows_[row].at(field.name);
    if (const auto* bytes = std::get_if<std::string>(&value)) {
      column.Set(row, bytes->data(), {static_cast<int64_t>(bytes->size())});
      return;
    }
    std::visit(
        [&](const auto& numbers) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(numbers)>, std::string>) {
            Shape shape = field.shape;
            if (!shape.IsKnown()) shape = {static_cast<int64_t>(numbers.size())};
            StoreAs(field.dtype, numbers, run_.Allocate(column, row, shape));
          }
        },
        value);
  }
  template <typename Numbers>
  static void StoreAs(DType dtype, const Numbers& numbers, void* out) {
    if (dtype == DType::kU8) return Store<uint8_t>(numbers, out);
    if (dtype == DType::kI32) return Store<int32_t>(numbers, out);
    if (dtype == DType::kI64) return Store<int64_t>(numbers, out);
    if (dtype == DType::kF32) return Store<float>(numbers, out);
    if (dtype == DType::kF64) return Store<double>(numbers, out);
    Store<uint16_t>(numbers, out);  // the bits of the half types
  }

  const Schema schema_;
  const std::vector<std::map<std::string, Value>> rows_;
  RunArena arena_;
  millrace::Run run_;
  absl::Status last_error_;
};

std::vector<int64_t> Ints(std::vector<int64_t> values) { return values; }
std::vector<double> Floats(std::vector<double> values) { return values; }

// Rows with x = 0, 1, 2, ...
Table Counting(int64_t rows) {
  std::vector<std::map<std::string, Value>> values;
  for (int64_t i = 0; i < rows; ++i) values.push_back({{"x", Ints({i})}});
  return Table(Schema({{"x", DType::kI64, {}}}), std::move(values));
}

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
      {{{"s", std::string("cat")}, {"image/text", std::string("a\n\"\xFF")}},
       {{"s", std::string()}, {"image/text", std::string("cat")}}});
  EXPECT_EQ(table.Evaluate("s == \"cat\""), "yn");
  EXPECT_EQ(table.Evaluate("s in ('dog', 'cat', '')"), "yy");
  EXPECT_EQ(table.Evaluate("s < 'd'"), "yy");
  EXPECT_EQ(table.Evaluate("`image/text` == 'a\\n\\\"\\xff'"), "yn");
  EXPECT_EQ(table.Evaluate("`image/text` < 'b'"), "yn");
  EXPECT_EQ(table.Evaluate("'b' < `image/text`"), "ny");
  EXPECT_EQ(table.Evaluate("len(s) == 3"), "yn");
  EXPECT_EQ(table.Evaluate("s != `image/text`"), "yy");
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
  EXPECT_THAT(std::string(table.last_error().message()),
              HasSubstr("field \"v\" has shape [1]; the predicate reads v[1]"));
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
      {"x == 'a\\q'", "column 8: unknown escape"},
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

// --- Random expressions against an interpreter that shares nothing with the evaluator: one row at
// a time over plain values, with outcomes as optionals.

struct Scalar {
  enum class Kind { kInt, kFloat, kString } kind = Kind::kInt;
  int64_t i = 0;
  double f = 0;
  std::string s;
};
using Row = std::map<std::string, Value>;

std::string Quoted(const std::string& s) {
  std::string out = "'";
  for (const char c : s) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

bool Holds(const std::string& op, const Scalar& a, const Scalar& b) {
  const auto compare = [&](const auto& x, const auto& y) {
    if (op == "==") return x == y;
    if (op == "!=") return x != y;
    if (op == "<") return x < y;
    if (op == "<=") return x <= y;
    if (op == ">") return x > y;
    return x >= y;
  };
  if (a.kind == Scalar::Kind::kString) return compare(a.s, b.s);
  if (a.kind == Scalar::Kind::kInt && b.kind == Scalar::Kind::kInt) return compare(a.i, b.i);
  return compare(a.kind == Scalar::Kind::kInt ? static_cast<double>(a.i) : a.f,
                 b.kind == Scalar::Kind::kInt ? static_cast<double>(b.i) : b.f);
}

// Text and meaning, made together.
struct Expression {
  std::string text;
  std::function<std::optional<bool>(const Row&)> outcome;
};
struct Term {
  std::string text;
  bool is_string = false;
  std::function<std::optional<Scalar>(const Row&)> value;
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Expression Any(int depth) {
    const unsigned kind = depth == 0 ? 3 + random_() % 2 : random_() % 5;
    if (kind == 0) return Not(Any(depth - 1));
    if (kind < 3) return Join(kind == 1, Any(depth - 1), Any(depth - 1));
    return kind == 3 ? Compare() : In();
  }
  unsigned Below(unsigned n) { return random_() % n; }
  Row RandomRow() {
    Row row;
    std::vector<int64_t> list(random_() % 4);
    for (int64_t& value : list) value = SmallInt();
    row["ids"] = list;
    row["n"] = Ints({Below(9) == 0 ? int64_t{1} << 53 : SmallInt()});
    row["u"] = Ints({static_cast<int64_t>(Below(4))});
    row["f"] = Floats({Below(9) == 0 ? std::nan("") : static_cast<double>(SmallInt()) / 2});
    row["s"] = SmallString();
    return row;
  }

 private:
  int64_t SmallInt() { return static_cast<int64_t>(random_() % 5) - 2; }
  std::string SmallString() {
    static const std::vector<std::string> kStrings = {"", "a", "b", "ab", "it's", "\xC3\xB6\\"};
    return kStrings[random_() % kStrings.size()];
  }
  std::string Space() { return random_() % 4 == 0 ? "  " : " "; }

  static Expression Not(const Expression& inner) {
    return {"not (" + inner.text + ")", [inner](const Row& row) -> std::optional<bool> {
              const auto outcome = inner.outcome(row);
              return outcome ? std::optional(!*outcome) : std::nullopt;
            }};
  }
  // Parentheses stand only around an `or` inside an `and`, and now and then for nothing.
  Expression Join(bool is_or, const Expression& a, const Expression& b) {
    const auto wrapped = [&](const Expression& part) {
      return !is_or || Below(3) == 0 ? "(" + part.text + ")" : part.text;
    };
    return {wrapped(a) + Space() + (is_or ? "or" : "and") + Space() + wrapped(b),
            [is_or, a, b](const Row& row) -> std::optional<bool> {
              const auto x = a.outcome(row);
              const auto y = b.outcome(row);
              if (x == is_or || y == is_or) return is_or;
              if (!x || !y) return std::nullopt;
              return !is_or;
            }};
  }

  Term Literal(bool is_string) {
    Scalar scalar;
    std::string text;
    if (is_string) {
      scalar.kind = Scalar::Kind::kString;
      scalar.s = SmallString();
      text = Quoted(scalar.s);
    } else if (Below(2) == 0) {
      scalar.i = Below(6) == 0 ? (int64_t{1} << 53) + 1 : SmallInt();
      text = std::to_string(scalar.i);
    } else {
      scalar.kind = Scalar::Kind::kFloat;
      scalar.f = static_cast<double>(SmallInt()) / 2;
      text = std::to_string(scalar.f);
    }
    return {text, is_string, [scalar](const Row&) { return scalar; }};
  }

  static std::optional<Scalar> At(const Row& row, const std::string& name, size_t i) {
    Scalar scalar;
    const Value& value = row.at(name);
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
      if (i >= ints->size()) return std::nullopt;
      scalar.i = (*ints)[i];
    } else if (const auto* floats = std::get_if<std::vector<double>>(&value)) {
      scalar.kind = Scalar::Kind::kFloat;
      scalar.f = (*floats)[i];
    } else {
      scalar.kind = Scalar::Kind::kString;
      scalar.s = std::get<std::string>(value);
    }
    return scalar;
  }

  Term FieldTerm() {
    const unsigned kind = Below(6);
    if (kind == 0) {
      const size_t i = Below(3);
      return {"ids[" + std::to_string(i) + "]", false,
              [i](const Row& row) { return At(row, "ids", i); }};
    }
    if (kind == 1) {
      return {"len(ids)", false, [](const Row& row) -> std::optional<Scalar> {
                Scalar scalar;
                scalar.i =
                    static_cast<int64_t>(std::get<std::vector<int64_t>>(row.at("ids")).size());
                return scalar;
              }};
    }
    static const std::vector<std::string> kNames = {"n", "u", "f", "s"};
    const std::string name = kNames[kind - 2];
    return {Below(2) == 0 ? name : "`" + name + "`", name == "s",
            [name](const Row& row) { return At(row, name, 0); }};
  }

  Expression Compare() {
    static const std::vector<std::string> kOps = {"==", "!=", "<", "<=", ">", ">="};
    const std::string op = kOps[random_() % kOps.size()];
    Term a = FieldTerm();
    Term b = FieldTerm();
    if (b.is_string != a.is_string || Below(2) == 0) b = Literal(a.is_string);
    if (Below(3) == 0) std::swap(a, b);
    return {a.text + Space() + op + Space() + b.text,
            [a, b, op](const Row& row) -> std::optional<bool> {
              const auto x = a.value(row);
              const auto y = b.value(row);
              if (!x || !y) return std::nullopt;
              return Holds(op, *x, *y);
            }};
  }

  Expression In() {
    const Term field = FieldTerm();
    const bool negated = Below(2) == 0;
    std::vector<Term> list;
    std::string text;
    for (unsigned n = 1 + Below(4); n > 0; --n) {
      list.push_back(Literal(field.is_string));
      text += (text.empty() ? "" : ", ") + list.back().text;
    }
    return {field.text + (negated ? " not in (" : " in (") + text + ")",
            [field, negated, list](const Row& row) -> std::optional<bool> {
              const auto x = field.value(row);
              if (!x) return std::nullopt;
              const bool found = std::ranges::any_of(
                  list, [&](const Term& term) { return Holds("==", *x, *term.value(row)); });
              return found != negated;
            }};
  }

  std::mt19937_64 random_;
};

// S-CUT-2, S-CUT-3
TEST(Predicate, RandomExpressionsAgreeWithAnInterpreter) {
  const Schema schema({{"ids", DType::kI64, {Shape::kUnknown}},
                       {"n", DType::kI64, {}},
                       {"u", DType::kU8, {1}},
                       {"f", DType::kF64, {}},
                       {"s", DType::kBytes, {Shape::kUnknown}}});
  Generator generator(17);
  std::vector<Row> rows;
  for (int i = 0; i < 200; ++i) rows.push_back(generator.RandomRow());
  Table table(schema, rows);
  std::map<char, int> seen;
  for (int i = 0; i < 1500; ++i) {
    const Expression expression = generator.Any(static_cast<int>(generator.Below(5)));
    std::string expected;
    for (const Row& row : rows) {
      const std::optional<bool> outcome = expression.outcome(row);
      expected += !outcome ? '!' : *outcome ? 'y' : 'n';
      ++seen[expected.back()];
    }
    ASSERT_EQ(table.Evaluate(expression.text), expected) << expression.text;
  }
  for (const char outcome : {'y', 'n', '!'}) EXPECT_GT(seen[outcome], 3000) << outcome;
}

}  // namespace
}  // namespace millrace::pipeline
