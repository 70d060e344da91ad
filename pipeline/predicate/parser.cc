#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "pipeline/predicate/lexer.h"
#include "pipeline/predicate/predicate.h"

// A parser by recursive descent over the lexemes of the whole text, which is short:
//
//   or         = and { "or" and }
//   and        = unary { "and" unary }
//   unary      = "not" unary | "(" or ")" | comparison
//   comparison = operand ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) operand
//              | operand [ "not" ] "in" "(" literal { "," literal } [ "," ] ")"
//              | "starts_with" "(" operand "," operand ")"
//   operand    = value { ( "%" | "//" ) value }
//   value      = literal | field | field "[" number "]" | "len" "(" field ")"
//              | ( "min" | "max" ) "(" operand "," operand { "," operand } ")"
//              | "abs" "(" operand ")"
//
// Parentheses, `not` and the steps of an operand nest, so their number in each other bounds every
// recursion over the tree.

namespace millrace::pipeline {
namespace {

using Node = Predicate::Node;
using Operand = PredicateOperand;
using Lexeme = PredicateLexeme;
using Function = PredicateOperand::Function;

constexpr size_t kMaxTextBytes = 64 << 10;
constexpr int kMaxDepth = 64;

std::optional<Node::Compare> ToCompare(std::string_view symbol) {
  if (symbol == "==") return Node::Compare::kEqual;
  if (symbol == "!=") return Node::Compare::kNotEqual;
  if (symbol == "<") return Node::Compare::kLess;
  if (symbol == "<=") return Node::Compare::kLessEqual;
  if (symbol == ">") return Node::Compare::kGreater;
  if (symbol == ">=") return Node::Compare::kGreaterEqual;
  return std::nullopt;
}

// The comparison of `b compare a` that holds where `a compare b` does.
Node::Compare Mirrored(Node::Compare compare) {
  switch (compare) {
    case Node::Compare::kLess:
      return Node::Compare::kGreater;
    case Node::Compare::kLessEqual:
      return Node::Compare::kGreaterEqual;
    case Node::Compare::kGreater:
      return Node::Compare::kLess;
    case Node::Compare::kGreaterEqual:
      return Node::Compare::kLessEqual;
    default:
      return compare;
  }
}

class Parser {
 public:
  explicit Parser(std::vector<Lexeme> lexemes) : lexemes_(std::move(lexemes)) {}

  absl::StatusOr<Node> Parse() {
    MILLRACE_ASSIGN_OR_RETURN(Node root, Junction(Node::Kind::kOr, 0));
    if (lexeme().kind != Lexeme::Kind::kEnd) return Expected("and, or, or the end");
    return root;
  }

 private:
  const Lexeme& lexeme() const { return lexemes_[at_]; }
  bool AtWord(std::string_view word) const {
    return lexeme().kind == Lexeme::Kind::kWord && lexeme().text == word;
  }
  bool AtSymbol(std::string_view symbol) const {
    return lexeme().kind == Lexeme::Kind::kSymbol && lexeme().text == symbol;
  }
  bool AtKeyword() const { return AtWord("and") || AtWord("or") || AtWord("not") || AtWord("in"); }
  bool TakeSymbol(std::string_view symbol) {
    const bool there = AtSymbol(symbol);
    at_ += there ? 1 : 0;
    return there;
  }
  bool TakeWord(std::string_view word) {
    const bool there = AtWord(word);
    at_ += there ? 1 : 0;
    return there;
  }

  bool AtNegative() const {
    const bool is_number =
        lexeme().kind == Lexeme::Kind::kInt || lexeme().kind == Lexeme::Kind::kFloat;
    return is_number && lexeme().text.starts_with('-');
  }

  // True before `word` and an opening parenthesis.
  bool AtCall(std::string_view word) const {
    return AtWord(word) && lexemes_[at_ + 1].kind == Lexeme::Kind::kSymbol &&
           lexemes_[at_ + 1].text == "(";
  }

  absl::Status Expected(std::string_view what) const {
    const std::string found = lexeme().kind == Lexeme::Kind::kEnd
                                  ? "the end"
                                  : absl::StrCat("\"", absl::CHexEscape(lexeme().text), "\"");
    return PredicateError(lexeme().column,
                          ToStd(absl::StrCat("expected ", ToAbsl(what), ", found ", found)));
  }
  absl::Status CheckDepth(int depth) const {
    if (depth < kMaxDepth) return absl::OkStatus();
    return PredicateError(
        lexeme().column,
        ToStd(absl::StrCat("more than ", kMaxDepth,
                           " parentheses, nots and steps of arithmetic in each other")));
  }

  absl::StatusOr<Node> Junction(Node::Kind kind, int depth) {
    const bool is_or = kind == Node::Kind::kOr;
    const auto part = [&] { return is_or ? Junction(Node::Kind::kAnd, depth) : Unary(depth); };
    MILLRACE_ASSIGN_OR_RETURN(Node first, part());
    const std::string_view word = is_or ? "or" : "and";
    if (!AtWord(word)) return first;
    Node node;
    node.kind = kind;
    node.children.push_back(std::move(first));
    while (TakeWord(word)) {
      MILLRACE_ASSIGN_OR_RETURN(Node next, part());
      node.children.push_back(std::move(next));
    }
    return node;
  }

  absl::StatusOr<Node> Unary(int depth) {
    if (AtWord("not")) {
      MILLRACE_RETURN_IF_ERROR(CheckDepth(depth));
      ++at_;
      MILLRACE_ASSIGN_OR_RETURN(Node child, Unary(depth + 1));
      return Not(std::move(child));
    }
    if (AtCall("starts_with")) return StartsWith(depth);
    if (!AtSymbol("(")) return Comparison(depth);
    MILLRACE_RETURN_IF_ERROR(CheckDepth(depth));
    ++at_;
    MILLRACE_ASSIGN_OR_RETURN(Node inner, Junction(Node::Kind::kOr, depth + 1));
    if (!TakeSymbol(")")) return Expected("and, or, or )");
    return inner;
  }

  static Node Not(Node child) {
    Node node;
    node.kind = Node::Kind::kNot;
    node.children.push_back(std::move(child));
    return node;
  }

  // At "starts_with".
  absl::StatusOr<Node> StartsWith(int depth) {
    Node node;
    node.compare = Node::Compare::kStartsWith;
    at_ += 2;
    MILLRACE_ASSIGN_OR_RETURN(node.left, AnyOperand(depth));
    if (!TakeSymbol(",")) return Expected(", and the beginning");
    MILLRACE_ASSIGN_OR_RETURN(node.right, AnyOperand(depth));
    if (!TakeSymbol(")")) return Expected(")");
    MILLRACE_RETURN_IF_ERROR(CheckNotChained());
    if (node.left.reads_field() || node.right.reads_field()) return node;
    return PredicateError(node.left.column, "starts_with looks at no field");
  }

  absl::StatusOr<Node> Comparison(int depth) {
    Node node;
    MILLRACE_ASSIGN_OR_RETURN(node.left, AnyOperand(depth));
    const bool negated = AtWord("not");
    at_ += negated ? 1 : 0;
    if (AtWord("in")) {
      MILLRACE_RETURN_IF_ERROR(InList(node));
      MILLRACE_RETURN_IF_ERROR(CheckNotChained());
      return negated ? Not(std::move(node)) : std::move(node);
    }
    if (negated) return Expected("in");
    const auto compare = lexeme().kind == Lexeme::Kind::kSymbol ? ToCompare(lexeme().text)
                                                                : std::optional<Node::Compare>();
    if (!compare.has_value()) {
      if (AtNegative()) return PredicateError(lexeme().column, "there is no subtraction");
      return Expected(ToStd(absl::StrCat("a comparison or in after ", ToText(node.left))));
    }
    ++at_;
    node.compare = *compare;
    MILLRACE_ASSIGN_OR_RETURN(node.right, AnyOperand(depth));
    MILLRACE_RETURN_IF_ERROR(CheckNotChained());
    if (!node.left.reads_field()) {
      std::swap(node.left, node.right);
      node.compare = Mirrored(node.compare);
    }
    if (node.left.reads_field()) return node;
    return PredicateError(std::min(node.left.column, node.right.column),
                          "neither side of the comparison is a field");
  }

  absl::Status CheckNotChained() const {
    const bool chained =
        AtWord("in") || (lexeme().kind == Lexeme::Kind::kSymbol && ToCompare(lexeme().text));
    if (!chained) return absl::OkStatus();
    return PredicateError(lexeme().column,
                          "comparisons cannot be chained; write \"a < b and b < c\"");
  }

  // At "in".
  absl::Status InList(Node& node) {
    node.kind = Node::Kind::kIn;
    if (!node.left.reads_field()) {
      return PredicateError(node.left.column, "what stands before in must be a field");
    }
    ++at_;
    if (!TakeSymbol("(")) return Expected("( and a list of values");
    do {
      if (AtSymbol(")") && !node.list.empty()) break;  // a comma before the end
      std::optional<Operand> literal = Literal();
      if (!literal) return Expected("a number or a string");
      node.list.push_back(std::move(*literal));
    } while (TakeSymbol(","));
    return TakeSymbol(")") ? absl::OkStatus() : Expected(", or )");
  }

  // nullopt, and takes nothing, when there stands none.
  std::optional<Operand> Literal() {
    Operand operand;
    operand.column = lexeme().column;
    switch (lexeme().kind) {
      case Lexeme::Kind::kInt:
        operand.kind = Operand::Kind::kInt;
        break;
      case Lexeme::Kind::kFloat:
        operand.kind = Operand::Kind::kFloat;
        break;
      case Lexeme::Kind::kString:
        operand.kind = Operand::Kind::kString;
        break;
      default:
        return std::nullopt;
    }
    operand.text = lexeme().text;
    operand.int_value = lexeme().int_value;
    operand.float_value = lexeme().float_value;
    ++at_;
    return operand;
  }

  // Each `%` or `//` counts as a level, since what stands before it becomes its argument.
  absl::StatusOr<Operand> AnyOperand(int depth) {
    MILLRACE_ASSIGN_OR_RETURN(Operand operand, Value(depth));
    while (AtSymbol("%") || AtSymbol("//")) {
      MILLRACE_RETURN_IF_ERROR(CheckDepth(depth++));
      Operand call;
      call.kind = Operand::Kind::kCall;
      call.column = operand.column;
      call.function = AtSymbol("%") ? Function::kModulo : Function::kFloorDivide;
      ++at_;
      call.arguments.push_back(std::move(operand));
      MILLRACE_ASSIGN_OR_RETURN(Operand right, Value(depth));
      call.arguments.push_back(std::move(right));
      operand = std::move(call);
    }
    return operand;
  }

  absl::StatusOr<Operand> Value(int depth) {
    if (std::optional<Operand> literal = Literal()) return *std::move(literal);
    if (AtCall("min")) return Call(Function::kMin, depth);
    if (AtCall("max")) return Call(Function::kMax, depth);
    if (AtCall("abs")) return Call(Function::kAbs, depth);
    return FieldValue();
  }

  // At the name of a function.
  absl::StatusOr<Operand> Call(Function function, int depth) {
    MILLRACE_RETURN_IF_ERROR(CheckDepth(depth));
    Operand call;
    call.kind = Operand::Kind::kCall;
    call.column = lexeme().column;
    call.function = function;
    at_ += 2;
    const size_t least = function == Function::kAbs ? 1 : 2;
    do {
      MILLRACE_ASSIGN_OR_RETURN(Operand argument, AnyOperand(depth + 1));
      call.arguments.push_back(std::move(argument));
    } while (function != Function::kAbs && TakeSymbol(","));
    if (call.arguments.size() < least) return Expected(", and another value");
    if (AtNegative()) return PredicateError(lexeme().column, "there is no subtraction");
    if (!TakeSymbol(")")) return Expected(function == Function::kAbs ? ")" : ", or )");
    return call;
  }

  absl::StatusOr<Operand> FieldValue() {
    const size_t column = lexeme().column;
    const bool is_length = AtCall("len");
    at_ += is_length ? 2 : 0;
    if ((lexeme().kind != Lexeme::Kind::kWord && lexeme().kind != Lexeme::Kind::kName) ||
        AtKeyword()) {
      return Expected(is_length ? "a field" : "a field, a number or a string");
    }
    Operand operand;
    operand.column = column;
    operand.text = lexeme().text;
    ++at_;
    if (is_length) {
      operand.kind = Operand::Kind::kLength;
      if (!TakeSymbol(")")) return Expected(")");
    } else if (TakeSymbol("[")) {
      operand.kind = Operand::Kind::kElement;
      if (lexeme().kind != Lexeme::Kind::kInt || lexeme().int_value < 0) {
        return Expected("the number of an element, from 0");
      }
      operand.int_value = lexeme().int_value;
      ++at_;
      if (!TakeSymbol("]")) return Expected("]");
    }
    return operand;
  }

  const std::vector<Lexeme> lexemes_;
  size_t at_ = 0;
};

std::string CallText(const Operand& call) {
  const bool is_operator =
      call.function == Function::kModulo || call.function == Function::kFloorDivide;
  const std::string name(NameOf(call.function));
  const std::string arguments = absl::StrJoin(
      call.arguments, is_operator ? absl::StrCat(" ", name, " ") : ", ",
      [](std::string* out, const Operand& argument) { out->append(ToText(argument)); });
  return is_operator ? arguments : absl::StrCat(name, "(", arguments, ")");
}

}  // namespace

absl::Status PredicateError(size_t column, std::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("column ", column, ": ", ToAbsl(text)));
}

std::string_view NameOf(PredicateOperand::Function function) {
  switch (function) {
    case Function::kModulo:
      return "%";
    case Function::kFloorDivide:
      return "//";
    case Function::kMin:
      return "min";
    case Function::kMax:
      return "max";
    case Function::kAbs:
      return "abs";
  }
  return "";
}

std::string ToText(const PredicateOperand& operand) {
  switch (operand.kind) {
    case Operand::Kind::kLength:
      return absl::StrCat("len(", operand.text, ")");
    case Operand::Kind::kElement:
      return absl::StrCat(operand.text, "[", operand.int_value, "]");
    case Operand::Kind::kString:
      return absl::StrCat("\"", absl::CHexEscape(operand.text), "\"");
    case Operand::Kind::kCall:
      return CallText(operand);
    default:
      return operand.text;
  }
}

absl::StatusOr<Predicate::Node> ParsePredicate(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("column 1: a predicate has at most ", kMaxTextBytes, " bytes"));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::vector<Lexeme> lexemes, SplitPredicate(text));
  return Parser(std::move(lexemes)).Parse();
}

}  // namespace millrace::pipeline
