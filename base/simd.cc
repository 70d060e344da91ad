#include "base/simd.h"

#include <cstdlib>

namespace millrace {

SimdLevel ParseSimdLimit(std::string_view name) {
  if (name == "none") return SimdLevel::kNone;
  if (name == "sse4.2") return SimdLevel::kSse42;
  if (name == "avx2") return SimdLevel::kAvx2;
  return SimdLevel::kAvx512;
}

SimdLevel SimdLimit() {
  static const SimdLevel limit = [] {
    const char* const name = std::getenv("MILLRACE_SIMD");
    return name == nullptr ? SimdLevel::kAvx512 : ParseSimdLimit(name);
  }();
  return limit;
}

}  // namespace millrace
