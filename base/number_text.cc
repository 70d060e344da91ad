#include "base/number_text.h"

#include <cstddef>

namespace millrace {

std::string Grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string Grouped(int64_t number) {
  const auto bits = static_cast<uint64_t>(number);
  return number < 0 ? "-" + Grouped(0 - bits) : Grouped(bits);
}

}  // namespace millrace
