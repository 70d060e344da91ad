#ifndef MILLRACE_READERS_EXAMPLE_VALUE_SINK_H_
#define MILLRACE_READERS_EXAMPLE_VALUE_SINK_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "readers/example/parser.h"

namespace millrace::readers::internal {

// The kind of list that holds the values of a column. Bytes make kU8 too.
inline FeatureKind KindOf(DType dtype) {
  if (dtype == DType::kBytes || dtype == DType::kU8) return FeatureKind::kBytes;
  return dtype == DType::kF32 ? FeatureKind::kFloat : FeatureKind::kInt;
}

// The sink of DecodeFeature that counts all values and keeps those that fit, if they are of the
// wanted kind.
struct ValueSink {
  FeatureKind wanted = FeatureKind::kNone;
  FeatureKind kind = FeatureKind::kNone;
  int64_t count = 0;
  int64_t capacity = 0;  // elements of `out`, which are of the wanted kind
  void* out = nullptr;
  std::string_view bytes;  // the last string

  void Begin(FeatureKind new_kind) {
    kind = new_kind;
    count = 0;
  }
  void Bytes(std::string_view value) {
    bytes = value;
    ++count;
  }
  void Int(int64_t value) {
    if (count < capacity && kind == wanted) static_cast<int64_t*>(out)[count] = value;
    ++count;
  }
  void Floats(std::string_view packed) {
    const int64_t n = static_cast<int64_t>(packed.size() / 4);
    const int64_t kept = std::min(n, std::max<int64_t>(capacity - count, 0));
    if (kept > 0 && kind == wanted) {
      std::memcpy(static_cast<float*>(out) + count, packed.data(), static_cast<size_t>(kept) * 4);
    }
    count += n;
  }
};

// Returns a text that says what is wrong with the kind of the values, or "".
std::string WhyNotKind(const ValueSink& sink);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_EXAMPLE_VALUE_SINK_H_
