#ifndef MILLRACE_BASE_UTF8_H_
#define MILLRACE_BASE_UTF8_H_

#include <string_view>

namespace millrace {

// True when `text` is well-formed UTF-8 (Unicode, table 3-7).
bool IsUtf8(std::string_view text);

}  // namespace millrace

#endif  // MILLRACE_BASE_UTF8_H_
