#include "pipeline/plan/text_edit.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/text.h"
#include "pipeline/plan/text_literals.h"
#include "pipeline/text_proto.h"

namespace millrace::pipeline {
namespace {

constexpr std::string_view kSpaces = " \t\v\f\r";
constexpr std::string_view kEndsOfNumber = " \t\v\f\r\n,;}>]#";

std::string FirstLineEnd(std::string_view text) {
  const size_t at = text.find_first_of("\r\n");
  if (at == std::string_view::npos || text[at] == '\n') return "\n";
  return text.substr(at).starts_with("\r\n") ? "\r\n" : "\r";
}

// The name in "${NAME}" or "${NAME:-default}"; empty: the text is no variable.
std::string VariableIn(std::string_view text) {
  if (!text.starts_with("${") || text.find('}') != text.size() - 1) return "";
  return std::string(text.substr(2, std::min(text.find(":-"), text.size() - 1) - 2));
}

}  // namespace

std::string Quoted(std::string_view text) {
  return absl::StrCat("\"", absl::CEscape(ToAbsl(text)), "\"");
}

TextEdit::TextEdit(std::string_view file, std::map<std::string, std::string> variables)
    : mark_bytes_(ByteOrderMarkBytes(file)),
      file_(file),
      original_(NormalizedText(file)),
      parsed_(SubstituteVariables(original_, variables)),
      line_end_(FirstLineEnd(file)),
      variables_(std::move(variables)) {
  FindComments();
}

void TextEdit::FindComments() {
  const std::string& text = parsed_.text;
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '"' || text[at] == '\'') {
      at = SkipLiteral(text, at);
    } else if (text[at] == '#') {
      commented_.insert(line);
      at = std::min(text.find('\n', at), text.size());
    } else {
      line += text[at++] == '\n' ? 1 : 0;
    }
  }
}

// The place of the bracket that closes the one at `opener`, of the parsed text.
size_t TextEdit::CloserOf(size_t opener) const {
  const std::string& text = parsed_.text;
  int open = 0;
  for (size_t at = opener; at < text.size(); at = SkipBlanks(text, at)) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = SkipLiteral(text, at);
      continue;
    }
    if (c == '{' || c == '<' || c == '[') ++open;
    if (c == '}' || c == '>' || c == ']') --open;
    if (open == 0) return at;
    ++at;
  }
  return text.size();
}

// The place in the original text behind the byte before `end`, of the parsed text.
size_t TextEdit::EndInOriginal(size_t end) const {
  const size_t last = parsed_.ToOriginal(end - 1);
  const bool is_variable = original_.substr(last, 2) == "${";
  return is_variable ? original_.find('}', last) + 1 : last + 1;
}

// Lines are the same in both texts, since no value has a line end.
size_t TextEdit::LineOf(size_t at) const {
  return static_cast<size_t>(
      std::count(parsed_.text.begin(), parsed_.text.begin() + static_cast<ptrdiff_t>(at), '\n'));
}

size_t TextEdit::LineBegin(size_t original) const {
  const size_t newline = original == 0 ? std::string::npos : original_.rfind('\n', original - 1);
  return newline == std::string::npos ? 0 : newline + 1;
}

void TextEdit::Comment(size_t at, const std::string& comment) {
  if (!comment.empty()) comments_[LineOf(at)].push_back(comment);
}

void TextEdit::SetNumber(size_t name, uint64_t value, const std::string& comment) {
  const std::string& text = parsed_.text;
  const size_t begin = SkipBlanks(text, text.find(':', name) + 1);
  const size_t end = std::min(text.find_first_of(kEndsOfNumber, begin), text.size());
  const size_t first = parsed_.ToOriginal(begin);
  const size_t last = EndInOriginal(end);
  const std::string variable = VariableIn(std::string_view(original_).substr(first, last - first));
  const auto given = variables_.find(variable);
  if (given != variables_.end()) {
    given->second = absl::StrCat(value);
    return;
  }
  patches_.push_back(
      {first, last,
       variable.empty() ? absl::StrCat(value) : absl::StrCat("${", variable, ":-", value, "}")});
  Comment(end, comment);
}

bool TextEdit::SetText(size_t name, std::string_view value, const std::string& comment) {
  const std::string& text = parsed_.text;
  const size_t begin = SkipBlanks(text, text.find(':', name) + 1);
  size_t end = begin;
  // Literals that follow each other are one.
  for (size_t at = begin; at < text.size() && (text[at] == '"' || text[at] == '\'');) {
    end = SkipLiteral(text, at);
    at = SkipBlanks(text, end);
  }
  if (end == begin) return false;
  const size_t first = parsed_.ToOriginal(begin);
  const size_t last = EndInOriginal(end);
  if (std::string_view(original_).substr(first, last - first).find("${") != std::string::npos) {
    return false;
  }
  patches_.push_back({first, last, Quoted(value)});
  Comment(end, comment);
  return true;
}

void TextEdit::AddFields(size_t name, const std::vector<NewField>& fields) {
  const std::string& text = parsed_.text;
  const size_t closer = CloserOf(text.find_first_of("{<", name));
  const size_t place = parsed_.ToOriginal(closer);
  const size_t line = LineBegin(place);
  const std::string indent = original_.substr(line, place - line);
  if (indent.find_first_not_of(kSpaces) == std::string::npos) {
    for (const NewField& field : fields) {
      const std::string comment = field.comment.empty() ? "" : absl::StrCat("  # ", field.comment);
      patches_.push_back({line, line, absl::StrCat(indent, "  ", field.text, comment, line_end_)});
    }
    return;
  }
  std::string added;
  for (const NewField& field : fields) {
    absl::StrAppend(&added, field.text, " ");
    Comment(closer, field.comment);
  }
  const bool follows_blank = kSpaces.find(original_[place - 1]) != std::string_view::npos;
  patches_.push_back({place, place, follows_blank ? added : " " + added});
}

void TextEdit::AddLines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) absl::StrAppend(&tail_, line, line_end_);
}

// The patches in the order of the text. Comments stand behind the last word of their lines.
std::vector<TextEdit::Patch> TextEdit::PatchesWithComments() const {
  std::vector<Patch> patches = patches_;
  size_t begin = 0;
  size_t line = 0;
  for (const auto& [number, texts] : comments_) {
    for (; line < number; ++line) begin = original_.find('\n', begin) + 1;
    const size_t end = std::min(original_.find('\n', begin), original_.size());
    const size_t word = original_.find_last_not_of(kSpaces, end == 0 ? 0 : end - 1);
    patches.push_back(
        {word + 1, word + 1,
         absl::StrCat(commented_.contains(number) ? "; " : "  # ", absl::StrJoin(texts, "; "))});
  }
  std::ranges::stable_sort(patches, {}, &Patch::begin);
  return patches;
}

std::string TextEdit::Text() const {
  const std::string_view file = std::string_view(file_).substr(mark_bytes_);
  std::string text = file_.substr(0, mark_bytes_);
  size_t at = 0;
  for (const Patch& patch : PatchesWithComments()) {
    absl::StrAppend(&text, ToAbsl(file.substr(at, patch.begin - at)), patch.text);
    at = patch.end;
  }
  text += file.substr(at);
  if (tail_.empty()) return text;
  if (!text.empty() && text.back() != '\n' && text.back() != '\r') text += line_end_;
  return text + tail_;
}

}  // namespace millrace::pipeline
