#include "readers/text/number_text.h"

#include <algorithm>
#include <charconv>

#include "base/status.h"
#include "base/text.h"

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

// Whether the decimal number `text`, not zero, is below 1: tells what is too small for a type from
// what is too large.
bool IsBelowOne(std::string_view text) {
  constexpr int64_t kMostDigits = 1 << 30;  // of an exponent; no text is as long
  const size_t exponent_at = std::min(text.find_first_of("eE"), text.size());
  const std::string_view digits = text.substr(0, exponent_at);
  const size_t point = std::min(digits.find('.'), digits.size());
  const size_t first = std::min(digits.find_first_of("123456789"), digits.size());
  int64_t exponent = 0;
  if (exponent_at < text.size() &&
      Parse(text.substr(exponent_at + 1), &exponent) == std::errc::result_out_of_range) {
    exponent = text[exponent_at + 1] == '-' ? -kMostDigits : kMostDigits;
  }
  exponent = std::clamp(exponent, -kMostDigits, kMostDigits);
  return static_cast<int64_t>(point) - static_cast<int64_t>(first) - (first < point ? 1 : 0) +
             exponent <
         0;
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
  if (error != std::errc::result_out_of_range) return "is not a float32";
  if (!IsBelowOne(text)) return "is out of the range of float32";
  double wide = 0;  // rounds it, or finds it too small as well
  if (Parse(text, &wide) != std::errc()) wide = text[0] == '-' ? -0.0 : 0.0;
  *out = static_cast<float>(wide);
  return nullptr;
}

absl::StatusOr<std::string_view> NumberInFile(std::string_view file) {
  const std::string_view why = WhyNotText(file);
  if (!why.empty()) return absl::InvalidArgumentError(ToAbsl(why));
  return TrimBlanks(file.substr(ByteOrderMarkBytes(file)));
}

std::string QuotedText(std::string_view text) {
  constexpr size_t kMost = 40;
  size_t bytes = std::min(text.size(), kMost);
  while (bytes < text.size() && bytes > 0 && (text[bytes] & 0xc0) == 0x80) --bytes;
  return "\"" + ShownText(text.substr(0, bytes)) + (text.size() > bytes ? "...\"" : "\"");
}

}  // namespace millrace::readers::internal
