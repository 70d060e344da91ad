#ifndef MILLRACE_BASE_TEXT_H_
#define MILLRACE_BASE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

// Files of text as people have them: with a byte order mark or without, and with the line ends of
// any system.

namespace millrace {

// Bytes of UTF-8's byte order mark at the front of a file, which are none of its text: 3, or 0.
size_t ByteOrderMarkBytes(std::string_view file);

// True for the first bytes of a Git LFS pointer, which stands where a file was not fetched. Twelve
// bytes tell as much as all.
bool IsGitLfsPointer(std::string_view first);
inline constexpr std::string_view kIsGitLfsPointer =
    "this is a Git LFS pointer instead of the file; `git lfs pull` fetches it";

// True for the first bytes of an HTML page.
bool IsHtml(std::string_view first);
inline constexpr std::string_view kIsHtml =
    "this is an HTML page, perhaps what a server said instead";

// The fault of a file by its first bytes, if it is not the UTF-8 text that is meant: text in
// another encoding, a Git LFS pointer, or an HTML page; else "". So many bytes tell as much as all.
std::string_view WhyNotText(std::string_view file);
inline constexpr size_t kTellingTextBytes = 64;

// A line end: "\n", "\r\n", or "\r" alone.
struct LineEnd {
  size_t at = std::string_view::npos;  // place of its first byte; npos: there is none
  size_t bytes = 0;
};
// The first line end of `text`. That of a "\r" which is the last byte may go on behind `text`.
LineEnd FindLineEnd(std::string_view text);

// Takes the first line, with its end, off `rest`, and returns it without the end.
std::string_view TakeLine(std::string_view& rest);

// `text` for a message: characters that cannot be seen (control characters, blanks of other widths
// than a space, marks of order and direction) as "<U+FEFF>", bytes that are not UTF-8 as "<0xFF>".
std::string ShownText(std::string_view text);
// The same of a message of several lines: line feeds and tabs stay.
std::string ShownMessage(std::string_view message);

}  // namespace millrace

#endif  // MILLRACE_BASE_TEXT_H_
