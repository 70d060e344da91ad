#include <charconv>
#include <cmath>

#include "readers/number_text_internal.h"

namespace millrace::readers::internal {
namespace {

// from_chars over all of `text`, which may begin with a plus sign as from_chars does not.
template <typename Number>
std::errc Parse(std::string_view text, Number* out) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, *out);
  return stopped == end && !text.empty() ? error : std::errc::invalid_argument;
}

}  // namespace

std::string_view TrimBlanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

const char* ParseInt(std::string_view text, int64_t* out) {
  const std::errc error = Parse(text, out);
  if (error == std::errc()) return nullptr;
  return error == std::errc::result_out_of_range ? "is out of the range of int64"
                                                 : "is not an int64";
}

const char* ParseFloat(std::string_view text, float* out) {
  const std::errc error = Parse(text, out);
  if (error == std::errc()) return nullptr;
  double wide = 0;  // tells what is too large from what is too small, and rounds to zero
  if (error == std::errc::result_out_of_range && Parse(text, &wide) == std::errc() &&
      std::fabs(wide) < 1) {
    *out = static_cast<float>(wide);
    return nullptr;
  }
  return error == std::errc::result_out_of_range ? "is out of the range of float32"
                                                 : "is not a float32";
}

std::string QuotedText(std::string_view text) {
  constexpr size_t kMost = 40;
  std::string quoted = "\"";
  for (const char c : text.substr(0, kMost)) quoted += c >= ' ' && c <= '~' ? c : '?';
  return quoted + (text.size() > kMost ? "...\"" : "\"");
}

}  // namespace millrace::readers::internal
