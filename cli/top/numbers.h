#ifndef MILLRACE_CLI_TOP_NUMBERS_H_
#define MILLRACE_CLI_TOP_NUMBERS_H_

#include <cstdint>
#include <string>
#include <string_view>

// Numbers for people to read in a few columns, in ASCII.

namespace millrace::cli {

// "7", "2,792", "12.3M", "4.56G", "1234G".
std::string CountText(int64_t count);
// The same for a number that is not whole: "0.4", "10"; "-" if it is not finite.
std::string RateText(double rate);
// "350 us", "4.1 ms", "1.2 s".
std::string TimeText(double ns);
// "00:12:31", "3 d 04:12:31", or "120 d".
std::string ClockText(double seconds);
// `text` with '?' for each byte that is no printable ASCII, cut to `width`, its end then "..".
std::string PlainText(std::string_view text, int width);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TOP_NUMBERS_H_
