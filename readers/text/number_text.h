#ifndef MILLRACE_READERS_TEXT_NUMBER_TEXT_H_
#define MILLRACE_READERS_TEXT_NUMBER_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

// Numbers written as text.

namespace millrace::readers::internal {

// `text` without spaces, tabs and line ends around it.
std::string_view TrimBlanks(std::string_view text);

// Parse a number that fills `text`: decimal, perhaps with a sign; a float perhaps with point and
// exponent, "inf" or "nan". Floats are rounded once, to nearest, in every locale. Return the fault,
// or nullptr: "is not an int64" or "is out of the range of int64".
const char* ParseInt(std::string_view text, int64_t* out);
const char* ParseFloat(std::string_view text, float* out);

// The text of a number in `file`, a file of its own (a member of a tar): without a byte order mark,
// and without blanks around it.
//   INVALID_ARGUMENT  it is no text (WhyNotText)
absl::StatusOr<std::string_view> NumberInFile(std::string_view file);

// `text` in quotes for a message, cut to 40 bytes; bytes that cannot be seen are as in ShownText.
std::string QuotedText(std::string_view text);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_TEXT_NUMBER_TEXT_H_
