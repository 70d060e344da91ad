#include "cli/page/html.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/utf8.h"

namespace millrace::cli {
namespace {

bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return (first < 0x20 && first != '\n') || first == 0x7F;
  // U+0080 to U+009F.
  return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

// The bytes of the UTF-8 character at the beginning of `text`, which is not empty; 0: there is
// none.
size_t CharacterSize(std::string_view text) {
  for (size_t size = 1; size <= 4 && size <= text.size(); ++size) {
    if (IsUtf8(text.substr(0, size))) return size;
  }
  return 0;
}

void AppendCharacter(std::string_view character, std::string* html) {
  switch (character[0]) {
    case '&':
      *html += "&amp;";
      break;
    case '<':
      *html += "&lt;";
      break;
    case '>':
      *html += "&gt;";
      break;
    case '"':
      *html += "&quot;";
      break;
    case '\'':
      *html += "&#39;";
      break;
    default:
      *html += character;
  }
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string html;
  while (!text.empty()) {
    const size_t size = CharacterSize(text);
    const std::string_view character = text.substr(0, size);
    if (size == 0 || IsControl(character)) {
      const std::string_view bytes = size == 0 ? text.substr(0, 1) : character;
      for (const char byte : bytes) {
        absl::StrAppendFormat(&html, "\\x%02X", static_cast<unsigned char>(byte));
      }
      text.remove_prefix(bytes.size());
      continue;
    }
    AppendCharacter(character, &html);
    text.remove_prefix(size);
  }
  return html;
}

std::string PngUri(std::string_view png) {
  return absl::StrCat("data:image/png;base64,", absl::Base64Escape(ToAbsl(png)));
}

}  // namespace millrace::cli
