#include "base/text.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/utf8.h"

namespace millrace {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

struct CodeRange {
  uint32_t first;
  uint32_t last;
};
// Control characters, and Unicode's classes Cf, Zl, Zp and Zs but for the space.
constexpr std::array<CodeRange, 22> kInvisible = {{
    {0x00, 0x1f},       {0x7f, 0xa0},       {0xad, 0xad},     {0x34f, 0x34f},   {0x600, 0x605},
    {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},   {0x8e2, 0x8e2},   {0x115f, 0x1160},
    {0x1680, 0x1680},   {0x180e, 0x180e},   {0x2000, 0x200f}, {0x2028, 0x202f}, {0x205f, 0x206f},
    {0x3000, 0x3000},   {0x3164, 0x3164},   {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
    {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
}};

bool IsInvisible(uint32_t code) {
  return std::ranges::any_of(kInvisible, [&](const CodeRange& range) {
    return code >= range.first && code <= range.last;
  });
}

// "\n" and "\t" stay as they are if `keeps_lines`.
std::string Shown(std::string_view text, bool keeps_lines) {
  std::string shown;
  while (!text.empty()) {
    const Utf8Character character = FirstUtf8(text);
    const std::string_view bytes = text.substr(0, std::max<size_t>(character.bytes, 1));
    text.remove_prefix(bytes.size());
    if (character.bytes == 0) {
      absl::StrAppendFormat(&shown, "<0x%02X>", static_cast<uint8_t>(bytes[0]));
    } else if (!IsInvisible(character.code) || (keeps_lines && (bytes == "\n" || bytes == "\t"))) {
      shown += bytes;
    } else {
      absl::StrAppendFormat(&shown, "<U+%04X>", character.code);
    }
  }
  return shown;
}

}  // namespace

size_t ByteOrderMarkBytes(std::string_view file) {
  return file.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
}

bool IsGitLfsPointer(std::string_view first) {
  constexpr std::string_view kVersion = "version https://git-lfs.github.com/spec/";
  constexpr size_t kTelling = 12;
  return first.size() >= kTelling && kVersion.starts_with(first.substr(0, kVersion.size()));
}

bool IsHtml(std::string_view first) {
  first.remove_prefix(ByteOrderMarkBytes(first));
  first.remove_prefix(std::min(first.find_first_not_of(" \t\r\n"), first.size()));
  const auto begins_with = [&](std::string_view tag) {
    return absl::StartsWithIgnoreCase({first.data(), first.size()}, {tag.data(), tag.size()});
  };
  return begins_with("<!doctype h") || begins_with("<html");
}

std::string_view WhyNotText(std::string_view file) {
  if (IsGitLfsPointer(file)) return kIsGitLfsPointer;
  if (IsHtml(file)) return kIsHtml;
  constexpr std::string_view kUtf16 = "this is UTF-16 text; write it as UTF-8";
  if (file.starts_with(std::string_view("\xff\xfe\0\0", 4)) ||
      file.starts_with(std::string_view("\0\0\xfe\xff", 4))) {
    return "this is UTF-32 text; write it as UTF-8";
  }
  if (file.starts_with("\xff\xfe") || file.starts_with("\xfe\xff")) return kUtf16;
  // Without a mark: two characters of ASCII.
  if (file.size() < 4) return "";
  const auto is_pair = [](char ascii, char zero) {
    return zero == 0 && ((ascii >= ' ' && ascii <= '~') || (ascii >= '\t' && ascii <= '\r'));
  };
  const bool little = is_pair(file[0], file[1]) && is_pair(file[2], file[3]);
  const bool big = is_pair(file[1], file[0]) && is_pair(file[3], file[2]);
  return little || big ? kUtf16 : "";
}

// In blocks: where lines end with "\r" alone, "\n" is not looked for in all that is left.
LineEnd FindLineEnd(std::string_view text) {
  constexpr size_t kBlockBytes = 256;
  for (size_t from = 0; from < text.size(); from += kBlockBytes) {
    const std::string_view block = text.substr(from, kBlockBytes);
    const size_t feed = block.find('\n');
    const size_t at = std::min(block.substr(0, feed).find('\r'), feed);
    if (at == block.npos) continue;
    return {from + at, text.substr(from + at, 2) == "\r\n" ? size_t{2} : size_t{1}};
  }
  return {};
}

std::string_view TakeLine(std::string_view& rest) {
  const LineEnd end = FindLineEnd(rest);
  const std::string_view line = rest.substr(0, end.at);
  rest.remove_prefix(line.size() + end.bytes);
  return line;
}

std::string ShownText(std::string_view text) { return Shown(text, /*keeps_lines=*/false); }

std::string ShownMessage(std::string_view message) { return Shown(message, /*keeps_lines=*/true); }

}  // namespace millrace
