#ifndef MILLRACE_TESTS_DAMAGED_BYTES_H_
#define MILLRACE_TESTS_DAMAGED_BYTES_H_

#include <algorithm>
#include <random>
#include <string>
#include <utility>

namespace millrace {

// `good` (at least two bytes) with a bit flipped, its end cut off, bytes taken out or put in, or
// two stretches swapped, as `random` draws it; half of the time near the front, where the structure
// is. Never `good` itself.
inline std::string DamagedBytes(const std::string& good, std::mt19937_64& random) {
  std::string bytes;
  do {
    bytes = good;
    const size_t near = random() % 2 == 0 ? good.size() : std::min<size_t>(good.size(), 128);
    const size_t at = random() % near;
    const size_t count = std::min<size_t>(1 + random() % 64, good.size() - at);
    const size_t other = random() % (good.size() - count + 1);
    switch (random() % 5) {
      case 0:
        bytes[at] ^= static_cast<char>(1 << random() % 8);
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.erase(at, count);
        break;
      case 3:
        bytes.insert(at, good, other, count);
        break;
      default:
        bytes.replace(at, count, good, other, count);
        bytes.replace(other, count, good, at, count);
    }
  } while (bytes == good);
  return bytes;
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_DAMAGED_BYTES_H_
