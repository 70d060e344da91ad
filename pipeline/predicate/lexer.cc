#include "pipeline/predicate/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/predicate/predicate.h"

namespace millrace::pipeline {
namespace {

using Lexeme = PredicateLexeme;

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
      return "; floor division is written //, and a field's name with such characters stands in "
             "backquotes: `image/class/label`";
    case '+':
    case '*':
      return "; the only arithmetic is %, //, min, max and abs";
    case '-':
      return "; there is no subtraction: the only arithmetic is %, //, min, max and abs. A field's "
             "name with such characters stands in backquotes: `image/class/label`";
    case '.':
    case ':':
      return "; a field's name with such characters stands in backquotes: `image/class/label`";
    default:
      return "";
  }
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<Lexeme>> Split() {
    std::vector<Lexeme> lexemes;
    do {
      SkipSpace();
      Lexeme lexeme;
      lexeme.column = ColumnOf(at_);
      MILLRACE_RETURN_IF_ERROR(Next(lexeme));
      lexemes.push_back(std::move(lexeme));
    } while (lexemes.back().kind != Lexeme::Kind::kEnd);
    return lexemes;
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

  absl::Status Next(Lexeme& lexeme) {
    if (at_ == text_.size()) return absl::OkStatus();
    const char c = text_[at_];
    if (IsWordStart(c)) {
      const size_t begin = at_;
      while (IsWordPart(Peek())) ++at_;
      lexeme.kind = Lexeme::Kind::kWord;
      lexeme.text = text_.substr(begin, at_ - begin);
      return absl::OkStatus();
    }
    if (c == '`') return BackquotedName(lexeme);
    if (c == '"' || c == '\'') return String(lexeme);
    if (IsDigit(c) || ((c == '-' || c == '.') && (IsDigit(Peek(1)) || Peek(1) == '.'))) {
      return Number(lexeme);
    }
    return Symbol(lexeme);
  }

  absl::Status Symbol(Lexeme& lexeme) {
    static constexpr std::array<std::string_view, 13> kSymbols = {
        "==", "!=", "<=", ">=", "//", "<", ">", "(", ")", "[", "]", ",", "%"};
    for (const std::string_view symbol : kSymbols) {
      if (!text_.substr(at_).starts_with(symbol)) continue;
      lexeme.kind = Lexeme::Kind::kSymbol;
      lexeme.text = symbol;
      at_ += symbol.size();
      return absl::OkStatus();
    }
    const char c = text_[at_];
    const std::string shown = absl::CHexEscape(absl::string_view(&c, 1));
    return PredicateError(lexeme.column,
                          ToStd(absl::StrCat("unexpected character ", shown, ToAbsl(AdviceOn(c)))));
  }

  absl::Status BackquotedName(Lexeme& lexeme) {
    const size_t end = text_.find('`', at_ + 1);
    if (end == std::string_view::npos) return PredicateError(lexeme.column, "backquote not closed");
    lexeme.kind = Lexeme::Kind::kName;
    lexeme.text = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (lexeme.text.empty()) return PredicateError(lexeme.column, "empty name");
    return absl::OkStatus();
  }

  absl::Status String(Lexeme& lexeme) {
    const char quote = text_[at_++];
    lexeme.kind = Lexeme::Kind::kString;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\') {
        MILLRACE_RETURN_IF_ERROR(Escape(lexeme.text));
      } else {
        lexeme.text.push_back(text_[at_++]);
      }
    }
    if (at_ == text_.size()) return PredicateError(lexeme.column, "string not closed");
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
      return PredicateError(column,
                            "unknown escape; there are \\n \\t \\r \\\\ \\' \\\" \\` \\xHH");
    }
    out.push_back(kMeanings[which]);
    at_ += 2;
    return absl::OkStatus();
  }

  absl::Status Number(Lexeme& lexeme) {
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
    lexeme.text = text_.substr(begin, at_ - begin);
    lexeme.kind = is_float ? Lexeme::Kind::kFloat : Lexeme::Kind::kInt;
    if (IsWordPart(Peek()) || Peek() == '.') return PredicateError(lexeme.column, "not a number");
    const char* const first = lexeme.text.data();
    const char* const last = first + lexeme.text.size();
    const auto done = is_float ? std::from_chars(first, last, lexeme.float_value)
                               : std::from_chars(first, last, lexeme.int_value);
    if (done.ec == std::errc::result_out_of_range) {
      return PredicateError(lexeme.column, is_float ? "number out of range of float64"
                                                    : "number out of range of int64");
    }
    if (done.ec != std::errc() || done.ptr != last) {
      return PredicateError(lexeme.column, "not a number");
    }
    if (!is_float) lexeme.float_value = static_cast<double>(lexeme.int_value);
    return absl::OkStatus();
  }

  const std::string_view text_;
  size_t at_ = 0;
  size_t counted_ = 0;
  size_t column_ = 1;
};

}  // namespace

absl::StatusOr<std::vector<PredicateLexeme>> SplitPredicate(std::string_view text) {
  return Lexer(text).Split();
}

}  // namespace millrace::pipeline
