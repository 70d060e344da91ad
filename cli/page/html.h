#ifndef MILLRACE_CLI_PAGE_HTML_H_
#define MILLRACE_CLI_PAGE_HTML_H_

#include <string>
#include <string_view>

namespace millrace::cli {

// `text` as HTML text and as the value of an attribute in double quotes. Bytes that a page cannot
// hold as text (not UTF-8, control characters except the line feed) become \x1F.
std::string EscapeHtml(std::string_view text);

// "data:image/png;base64,..."
std::string PngUri(std::string_view png);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_PAGE_HTML_H_
