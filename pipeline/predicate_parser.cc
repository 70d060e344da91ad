#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/predicate_internal.h"

// A lexer that cuts the whole text (it is short) and a parser by recursive descent:
//
//   or         = and { "or" and }
//   and        = unary { "and" unary }
//   unary      = "not" unary | "(" or ")" | comparison
//   comparison = operand ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) operand
//              | operand [ "not" ] "in" "(" literal { "," literal } ")"
//   operand    = literal | field | field "[" number "]" | "len" "(" field ")"
//
// Only parentheses and `not` nest, so their depth bounds every recursion over the tree.

namespace millrace::pipeline {
namespace {

using Node = Predicate::Node;
using Operand = PredicateOperand;

constexpr size_t kMaxTextBytes = 64 << 10;
constexpr int kMaxDepth = 64;

struct Token {
  enum class Kind { kEnd, kWord, kName, kInt, kFloat, kString, kSymbol };
  Kind kind = Kind::kEnd;
  size_t column = 0;
  std::string text;  // as written; of kName and kString what is between the quotes, unescaped
  int64_t int_value = 0;
  double float_value = 0;
};

bool IsWordStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool IsWordPart(char c) { return IsWordStart(c) || IsDigit(c); }

// Advice about what other languages write.
std::string_view AdviceOn(char c) {
  switch (c) {
    case '=':
      return "; a comparison is written ==";
    case '&':
      return "; write and";
    case '|':
      return "; write or";
    case '!':
      return "; write not, or != for unequal";
    case '/':
    case '.':
    case '-':
    case ':':
      return "; a field's name with such characters stands in backquotes: `image/class/label`";
    default:
      return "";
  }
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<Token>> Cut() {
    std::vector<Token> tokens;
    do {
      SkipSpace();
      Token token;
      token.column = ColumnOf(at_);
      MILLRACE_RETURN_IF_ERROR(Next(token));
      tokens.push_back(std::move(token));
    } while (tokens.back().kind != Token::Kind::kEnd);
    return tokens;
  }

 private:
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  // Characters of UTF-8 count, not bytes. Called with ascending offsets.
  size_t ColumnOf(size_t offset) {
    for (; counted_ < offset; ++counted_) {
      column_ += (static_cast<unsigned char>(text_[counted_]) & 0xC0) != 0x80 ? 1 : 0;
    }
    return column_;
  }

  absl::Status Next(Token& token) {
    if (at_ == text_.size()) return absl::OkStatus();
    const char c = text_[at_];
    if (IsWordStart(c)) {
      const size_t begin = at_;
      while (IsWordPart(Peek())) ++at_;
      token.kind = Token::Kind::kWord;
      token.text = text_.substr(begin, at_ - begin);
      return absl::OkStatus();
    }
    if (c == '`') return BackquotedName(token);
    if (c == '"' || c == '\'') return String(token);
    if (IsDigit(c) || ((c == '-' || c == '.') && (IsDigit(Peek(1)) || Peek(1) == '.'))) {
      return Number(token);
    }
    return Symbol(token);
  }

  absl::Status Symbol(Token& token) {
    static constexpr std::array<std::string_view, 11> kSymbols = {"==", "!=", "<=", ">=", "<", ">",
                                                                  "(",  ")",  "[",  "]",  ","};
    for (const std::string_view symbol : kSymbols) {
      if (!text_.substr(at_).starts_with(symbol)) continue;
      token.kind = Token::Kind::kSymbol;
      token.text = symbol;
      at_ += symbol.size();
      return absl::OkStatus();
    }
    const char c = text_[at_];
    const std::string shown = absl::CHexEscape(absl::string_view(&c, 1));
    return PredicateError(token.column,
                          ToStd(absl::StrCat("unexpected character ", shown, ToAbsl(AdviceOn(c)))));
  }

  absl::Status BackquotedName(Token& token) {
    const size_t end = text_.find('`', at_ + 1);
    if (end == std::string_view::npos) return PredicateError(token.column, "backquote not closed");
    token.kind = Token::Kind::kName;
    token.text = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (token.text.empty()) return PredicateError(token.column, "empty name");
    return absl::OkStatus();
  }

  absl::Status String(Token& token) {
    const char quote = text_[at_++];
    token.kind = Token::Kind::kString;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\') {
        MILLRACE_RETURN_IF_ERROR(Escape(token.text));
      } else {
        token.text.push_back(text_[at_++]);
      }
    }
    if (at_ == text_.size()) return PredicateError(token.column, "string not closed");
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Escape(std::string& out) {
    static constexpr std::string_view kLetters = "ntr\\'\"`";
    static constexpr std::string_view kMeanings = "\n\t\r\\'\"`";
    const size_t column = ColumnOf(at_);
    const char letter = Peek(1);
    if (letter == 'x') {
      unsigned value = 0;
      const char* const digits = text_.data() + std::min(at_ + 2, text_.size());
      const char* const end = text_.data() + std::min(at_ + 4, text_.size());
      if (end - digits == 2 && std::from_chars(digits, end, value, 16).ptr == end) {
        out.push_back(static_cast<char>(value));
        at_ += 4;
        return absl::OkStatus();
      }
      return PredicateError(column, "\\x wants two hexadecimal digits");
    }
    const size_t which = letter == '\0' ? std::string_view::npos : kLetters.find(letter);
    if (which == std::string_view::npos) {
      return PredicateError(column, "unknown escape; there are \\n \\t \\r \\\\ \\' \\\" \\xHH");
    }
    out.push_back(kMeanings[which]);
    at_ += 2;
    return absl::OkStatus();
  }

  absl::Status Number(Token& token) {
    const size_t begin = at_;
    bool is_float = false;
    if (Peek() == '-') ++at_;
    while (IsDigit(Peek())) ++at_;
    if (Peek() == '.') {
      is_float = true;
      ++at_;
      while (IsDigit(Peek())) ++at_;
    }
    const size_t sign = Peek(1) == '-' || Peek(1) == '+' ? 1 : 0;
    if ((Peek() == 'e' || Peek() == 'E') && IsDigit(Peek(1 + sign))) {
      is_float = true;
      at_ += 1 + sign;
      while (IsDigit(Peek())) ++at_;
    }
    token.text = text_.substr(begin, at_ - begin);
    token.kind = is_float ? Token::Kind::kFloat : Token::Kind::kInt;
    if (IsWordPart(Peek()) || Peek() == '.') return PredicateError(token.column, "not a number");
    const char* const first = token.text.data();
    const char* const last = first + token.text.size();
    const auto done = is_float ? std::from_chars(first, last, token.float_value)
                               : std::from_chars(first, last, token.int_value);
    if (done.ec == std::errc::result_out_of_range) {
      return PredicateError(token.column, is_float ? "number out of range of float64"
                                                   : "number out of range of int64");
    }
    if (done.ec != std::errc() || done.ptr != last) {
      return PredicateError(token.column, "not a number");
    }
    if (!is_float) token.float_value = static_cast<double>(token.int_value);
    return absl::OkStatus();
  }

  const std::string_view text_;
  size_t at_ = 0;
  size_t counted_ = 0;
  size_t column_ = 1;
};

std::optional<Node::Compare> ToCompare(std::string_view symbol) {
  if (symbol == "==") return Node::Compare::kEqual;
  if (symbol == "!=") return Node::Compare::kNotEqual;
  if (symbol == "<") return Node::Compare::kLess;
  if (symbol == "<=") return Node::Compare::kLessEqual;
  if (symbol == ">") return Node::Compare::kGreater;
  if (symbol == ">=") return Node::Compare::kGreaterEqual;
  return std::nullopt;
}

// What `b compare a` is of `a compare b`.
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
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<Node> Parse() {
    MILLRACE_ASSIGN_OR_RETURN(Node root, Junction(Node::Kind::kOr, 0));
    if (token().kind != Token::Kind::kEnd) return Expected("and, or, or the end");
    return root;
  }

 private:
  const Token& token() const { return tokens_[at_]; }
  bool AtWord(std::string_view word) const {
    return token().kind == Token::Kind::kWord && token().text == word;
  }
  bool AtSymbol(std::string_view symbol) const {
    return token().kind == Token::Kind::kSymbol && token().text == symbol;
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

  absl::Status Expected(std::string_view what) const {
    const std::string found = token().kind == Token::Kind::kEnd
                                  ? "the end"
                                  : absl::StrCat("\"", absl::CHexEscape(token().text), "\"");
    return PredicateError(token().column,
                          ToStd(absl::StrCat("expected ", ToAbsl(what), ", found ", found)));
  }
  absl::Status CheckDepth(int depth) const {
    if (depth < kMaxDepth) return absl::OkStatus();
    return PredicateError(
        token().column,
        ToStd(absl::StrCat("more than ", kMaxDepth, " parentheses and nots in each other")));
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
    if (!AtSymbol("(")) return Comparison();
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

  absl::StatusOr<Node> Comparison() {
    Node node;
    MILLRACE_ASSIGN_OR_RETURN(node.left, AnyOperand());
    const bool negated = AtWord("not");
    at_ += negated ? 1 : 0;
    if (AtWord("in")) {
      MILLRACE_RETURN_IF_ERROR(InList(node));
      MILLRACE_RETURN_IF_ERROR(CheckNotChained());
      return negated ? Not(std::move(node)) : std::move(node);
    }
    if (negated) return Expected("in");
    const auto compare = token().kind == Token::Kind::kSymbol ? ToCompare(token().text)
                                                              : std::optional<Node::Compare>();
    if (!compare.has_value()) {
      return Expected(ToStd(absl::StrCat("a comparison or in after ", ToText(node.left))));
    }
    ++at_;
    node.compare = *compare;
    MILLRACE_ASSIGN_OR_RETURN(node.right, AnyOperand());
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
        AtWord("in") || (token().kind == Token::Kind::kSymbol && ToCompare(token().text));
    if (!chained) return absl::OkStatus();
    return PredicateError(token().column,
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
    operand.column = token().column;
    switch (token().kind) {
      case Token::Kind::kInt:
        operand.kind = Operand::Kind::kInt;
        break;
      case Token::Kind::kFloat:
        operand.kind = Operand::Kind::kFloat;
        break;
      case Token::Kind::kString:
        operand.kind = Operand::Kind::kString;
        break;
      default:
        return std::nullopt;
    }
    operand.text = token().text;
    operand.int_value = token().int_value;
    operand.float_value = token().float_value;
    ++at_;
    return operand;
  }

  absl::StatusOr<Operand> AnyOperand() {
    if (std::optional<Operand> literal = Literal()) return *std::move(literal);
    const size_t column = token().column;
    const bool is_length = AtWord("len") && tokens_[at_ + 1].text == "(" &&
                           tokens_[at_ + 1].kind == Token::Kind::kSymbol;
    at_ += is_length ? 2 : 0;
    if ((token().kind != Token::Kind::kWord && token().kind != Token::Kind::kName) || AtKeyword()) {
      return Expected(is_length ? "a field" : "a field, a number or a string");
    }
    Operand operand;
    operand.column = column;
    operand.text = token().text;
    ++at_;
    if (is_length) {
      operand.kind = Operand::Kind::kLength;
      if (!TakeSymbol(")")) return Expected(")");
    } else if (TakeSymbol("[")) {
      operand.kind = Operand::Kind::kElement;
      if (token().kind != Token::Kind::kInt || token().int_value < 0) {
        return Expected("the number of an element, from 0");
      }
      operand.int_value = token().int_value;
      ++at_;
      if (!TakeSymbol("]")) return Expected("]");
    }
    return operand;
  }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace

absl::Status PredicateError(size_t column, std::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("column ", column, ": ", ToAbsl(text)));
}

std::string ToText(const PredicateOperand& operand) {
  switch (operand.kind) {
    case Operand::Kind::kLength:
      return absl::StrCat("len(", operand.text, ")");
    case Operand::Kind::kElement:
      return absl::StrCat(operand.text, "[", operand.int_value, "]");
    case Operand::Kind::kString:
      return absl::StrCat("\"", absl::CHexEscape(operand.text), "\"");
    default:
      return operand.text;
  }
}

absl::StatusOr<Predicate::Node> ParsePredicate(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("column 1: a predicate has at most ", kMaxTextBytes, " bytes"));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::vector<Token> tokens, Lexer(text).Cut());
  return Parser(std::move(tokens)).Parse();
}

}  // namespace millrace::pipeline
