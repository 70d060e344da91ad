#include "pipeline/plan/text_literals.h"

#include <algorithm>

namespace millrace::pipeline {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

}  // namespace

size_t SkipBlanks(std::string_view text, size_t at) {
  while (true) {
    at = std::min(text.find_first_not_of(kBlanks, at), text.size());
    if (at == text.size() || text[at] != '#') return at;
    at = std::min(text.find('\n', at), text.size());
  }
}

size_t SkipLiteral(std::string_view text, size_t at) {
  const char quote = text[at++];
  while (at < text.size() && text[at] != quote) at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

std::vector<size_t> StringsOfField(std::string_view text, size_t name) {
  std::vector<size_t> begins;
  size_t at = SkipBlanks(text, text.find(':', name) + 1);  // npos + 1 is 0
  const bool is_list = at < text.size() && text[at] == '[';
  if (is_list) at = SkipBlanks(text, at + 1);
  bool is_new = true;  // literals side by side are one string
  while (at < text.size()) {
    if (text[at] == '"' || text[at] == '\'') {
      if (is_new) begins.push_back(at + 1);
      is_new = false;
      at = SkipBlanks(text, SkipLiteral(text, at));
    } else if (is_list && text[at] == ',') {
      is_new = true;
      at = SkipBlanks(text, at + 1);
    } else {
      break;
    }
  }
  return begins;
}

}  // namespace millrace::pipeline
