#ifndef MILLRACE_TESTS_AUGMENT_HEAP_TESTING_H_
#define MILLRACE_TESTS_AUGMENT_HEAP_TESTING_H_

#include <malloc.h>

#include <cstdint>
#include <memory>

namespace millrace::augment::testing {

// Bytes that the program has of malloc.
inline int64_t HeapBytes() {
  const auto info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// The sanitizers have an allocator of their own, of which mallinfo2 knows nothing.
inline bool HeapIsCounted() {
  const int64_t before = HeapBytes();
  const std::unique_ptr<volatile char[]> block(new volatile char[1 << 20]);
  return HeapBytes() - before >= 1 << 20;
}

}  // namespace millrace::augment::testing

#endif  // MILLRACE_TESTS_AUGMENT_HEAP_TESTING_H_
