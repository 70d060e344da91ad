#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "pipeline/predicate.h"
#include "tests/pipeline/predicate/predicate_fixture.h"

// Random expressions against an interpreter that shares nothing with the evaluator: one row at a
// time over plain values, with outcomes as optionals.

namespace millrace::pipeline {
namespace {

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

  // A remainder or the least of two, of terms that are whole numbers or missing.
  Term Arithmetic() {
    const Term a = FieldTerm(), b = FieldTerm();
    const bool is_min = Below(2) == 0;
    if (a.is_string || b.is_string) return a;
    return {is_min ? "min(" + a.text + "," + b.text + ")" : a.text + "%" + b.text, false,
            [a, b, is_min](const Row& row) -> std::optional<Scalar> {
              const auto x = a.value(row), y = b.value(row);
              if (!x || !y) return std::nullopt;
              return is_min ? Least(*x, *y) : Remainder(*x, *y);
            }};
  }
  static double AsFloat(const Scalar& x) {
    return x.kind == Scalar::Kind::kInt ? static_cast<double>(x.i) : x.f;
  }
  static Scalar Least(const Scalar& x, const Scalar& y) {
    if (x.kind == Scalar::Kind::kInt && y.kind == Scalar::Kind::kInt) return x.i < y.i ? x : y;
    const double a = AsFloat(x), b = AsFloat(y);
    return Float(std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b));
  }
  static std::optional<Scalar> Remainder(const Scalar& x, const Scalar& y) {
    if (AsFloat(y) == 0) return std::nullopt;
    if (x.kind == Scalar::Kind::kFloat || y.kind == Scalar::Kind::kFloat) {
      const double a = AsFloat(x), b = AsFloat(y);  // of halves, so this is exact
      return Float(a - b * std::floor(a / b));
    }
    Scalar scalar = x;
    scalar.i = ((x.i % y.i) + y.i) % y.i;
    return scalar;
  }
  static Scalar Float(double value) {
    Scalar scalar;
    scalar.kind = Scalar::Kind::kFloat;
    scalar.f = value;
    return scalar;
  }

  Expression Compare() {
    static const std::vector<std::string> kOps = {"==", "!=", "<", "<=", ">", ">="};
    const std::string op = kOps[random_() % kOps.size()];
    Term a = Below(3) == 0 ? Arithmetic() : FieldTerm();
    Term b = Below(5) == 0 ? Arithmetic() : FieldTerm();
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
    const Term field = Below(3) == 0 ? Arithmetic() : FieldTerm();
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
