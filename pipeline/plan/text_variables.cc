#include "pipeline/plan/text_variables.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/status.h"

namespace millrace::pipeline {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool IsNameStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsNamePart(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool IsName(std::string_view text) {
  return !text.empty() && IsNameStart(text[0]) && std::ranges::all_of(text, IsNamePart);
}

// True for one word that cannot open, close or start anything else: a number or an identifier.
bool IsPlainWord(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (IsName(text)) return true;
  bool has_digit = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool exponent_sign =
        (text[i] == '-' || text[i] == '+') && i > 0 && (text[i - 1] == 'e' || text[i - 1] == 'E');
    if (!IsNamePart(text[i]) && text[i] != '.' && !exponent_sign) return false;
    has_digit |= absl::ascii_isdigit(static_cast<unsigned char>(text[i]));
  }
  return has_digit && text[0] != '_' && !absl::ascii_isalpha(static_cast<unsigned char>(text[0]));
}

char OpenerOf(char closer) { return closer == '}' ? '{' : closer == ']' ? '[' : '<'; }

// Walks the text once, knowing only comments, string literals and brackets.
class Substituter {
 public:
  Substituter(std::string_view text, const std::map<std::string, std::string>& variables)
      : in_(text), variables_(variables) {}

  SubstitutedText Run() && {
    if (in_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    Mark(at_, /*verbatim=*/true);
    while (at_ < in_.size() && !too_deep_) Step();
    TellUnclosed();
    return std::move(out_);
  }

 private:
  void Step() {
    const char c = in_[at_];
    if (in_comment_) {
      if (c == '\n') in_comment_ = false;
    } else if (c == '$') {
      return Dollar();
    } else if (quote_ != 0) {
      StepInString(c);
    } else {
      StepInCode(c);
    }
    Copy(1);
  }

  void StepInString(char c) {
    if (c == '\\' && at_ + 1 < in_.size() && in_[at_ + 1] != '\n' && in_[at_ + 1] != '$') Copy(1);
    unclear_ |= c == '\n';
    if (c == quote_ || c == '\n') quote_ = 0;
  }

  void StepInCode(char c) {
    if (c == '#') in_comment_ = true;
    if (c == '"' || c == '\'') quote_ = c;
    if (c == '{' || c == '<' || c == '[') open_.push_back(at_);
    if (c == '}' || c == '>' || c == ']') Close(c);
    if (open_.size() <= kMaxTextNesting) return;
    too_deep_ = true;
    Error(at_, absl::StrCat("more than ", kMaxTextNesting, " brackets are open"));
  }

  void Close(char closer) {
    unclear_ |= open_.empty() || in_[open_.back()] != OpenerOf(closer);
    if (!open_.empty()) open_.pop_back();
  }

  // The parser would complain about the end of the text only.
  void TellUnclosed() {
    if (!out_.errors.empty() || unclear_ || quote_ != 0) return;
    for (const size_t at : open_) {
      Error(at, absl::StrCat("\"", std::string(1, in_[at]), "\" is not closed"));
    }
  }

  // At a '$': "$$", "${NAME}", "${NAME:-default}", or a plain one.
  void Dollar() {
    const std::string_view rest = in_.substr(at_);
    if (rest.starts_with("$$")) {
      const size_t begin = at_;
      ++at_;
      Copy(1);
      Mark(begin + 2, /*verbatim=*/true);
      return;
    }
    if (!rest.starts_with("${")) return Copy(1);
    const size_t close = rest.find_first_of("}\n");
    if (close == std::string_view::npos || rest[close] == '\n') {
      Error(at_, "\"${\" without \"}\" on its line");
      return Copy(2);
    }
    Variable(rest.substr(2, close - 2));
    at_ += close + 1;
    Mark(at_, /*verbatim=*/true);
  }

  // `inside` is what stands between the braces; at_ is still at the '$'.
  void Variable(std::string_view inside) {
    const size_t split = inside.find(":-");
    const std::string name(inside.substr(0, split));
    if (!IsName(name)) {
      return Error(at_,
                   absl::StrCat("\"", name, "\" is not a variable's name (letters, digits, _)"));
    }
    out_.used.insert(name);
    const auto given = variables_.find(name);
    if (given != variables_.end()) return Value(name, given->second, /*given=*/true);
    if (split != std::string_view::npos) {
      return Value(name, inside.substr(split + 2), /*given=*/false);
    }
    out_.without_value.insert(name);
    Error(at_, absl::StrCat("variable ", name, " is not set", Nearest(name), "; set it with --var ",
                            name, "=VALUE"));
  }

  std::string Nearest(const std::string& name) const {
    std::vector<std::string> names;
    std::ranges::transform(variables_, std::back_inserter(names), [](auto& v) { return v.first; });
    const std::string nearest = NearestName(name, names);
    return nearest.empty() ? "" : absl::StrCat(" (", nearest, " is; is one of them misspelt?)");
  }

  void Value(const std::string& name, std::string_view value, bool given) {
    if (quote_ == 0 && !IsPlainWord(value)) {
      return Error(at_, absl::StrCat("the value of ", name, ", \"",
                                     absl::Utf8SafeCEscape(ToAbsl(value.substr(0, 64))),
                                     "\", is not one number or identifier; put quotes around ${",
                                     name, "} if it is text"));
    }
    Mark(at_, /*verbatim=*/false);
    out_.segments.back().given = given;
    out_.text += quote_ == 0 ? std::string(value) : absl::Utf8SafeCEscape(ToAbsl(value));
  }

  void Copy(size_t n) {
    n = std::min(n, in_.size() - at_);
    out_.text.append(in_.substr(at_, n));
    at_ += n;
  }

  void Mark(size_t original, bool verbatim) {
    out_.segments.push_back({out_.text.size(), original, verbatim});
  }

  void Error(size_t offset, std::string message) {
    out_.errors.push_back({offset, std::move(message)});
  }

  const std::string_view in_;
  const std::map<std::string, std::string>& variables_;
  SubstitutedText out_;
  size_t at_ = 0;
  std::vector<size_t> open_;  // places of the brackets that are open
  char quote_ = 0;            // the open literal's quote, or 0
  bool in_comment_ = false;   // true inside a comment
  bool too_deep_ = false;     // true once brackets were nested too deep
  // True if a line ended inside a literal, or brackets do not match: the parser tells of that, and
  // which brackets are open is not known.
  bool unclear_ = false;
};

}  // namespace

size_t SubstitutedText::ToOriginal(size_t offset) const {
  auto segment = std::ranges::upper_bound(segments, offset, {}, &TextSegment::result_begin);
  if (segment == segments.begin()) return 0;
  --segment;
  return segment->original_begin + (segment->verbatim ? offset - segment->result_begin : 0);
}

bool SubstitutedText::IsGivenAt(size_t offset) const {
  auto segment = std::ranges::upper_bound(segments, offset, {}, &TextSegment::result_begin);
  if (segment == segments.begin()) return false;
  --segment;  // the last that begins there: those before it are empty
  return segment->given && segment->result_begin == offset;
}

SubstitutedText SubstituteVariables(std::string_view text,
                                    const std::map<std::string, std::string>& variables) {
  return Substituter(text, variables).Run();
}

std::string LineAndColumn(std::string_view text, size_t offset) {
  std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t newline = before.rfind('\n');
  if (newline != std::string_view::npos) before.remove_prefix(newline + 1);
  if (before.starts_with(kByteOrderMark)) before.remove_prefix(kByteOrderMark.size());
  const auto column = 1 + std::ranges::count_if(before, [](char c) { return (c & 0xC0) != 0x80; });
  return absl::StrCat(line, ":", column);
}

}  // namespace millrace::pipeline
