#ifndef MILLRACE_BASE_UTF8_H_
#define MILLRACE_BASE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace {

// True when `text` is well-formed UTF-8 (Unicode, table 3-7).
bool IsUtf8(std::string_view text);

// The character at the front of `text`.
struct Utf8Character {
  uint32_t code = 0;  // the code point
  size_t bytes = 0;   // that it takes; 0: `text` is empty, or does not begin with one
};
Utf8Character FirstUtf8(std::string_view text);

}  // namespace millrace

#endif  // MILLRACE_BASE_UTF8_H_
