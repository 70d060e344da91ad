#ifndef MILLRACE_TESTS_AUGMENT_HEAP_TESTING_H_
#define MILLRACE_TESTS_AUGMENT_HEAP_TESTING_H_

#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace millrace::augment::testing {

// Bytes that the program has of malloc. Nothing is known of the sanitizers' allocators.
inline int64_t HeapBytes() {
  const auto info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// A block that a compiler may not leave out, though nothing is written to it.
inline std::unique_ptr<void, void (*)(void*)> ProbeBlock(size_t bytes) {
  static void* (*volatile const allocate)(size_t) = &std::malloc;
  return {allocate(bytes), &std::free};
}

// Whether `held_bytes`, HeapBytes or the like, counts what is allocated.
template <typename HeldBytes>
bool Counts(const HeldBytes& held_bytes) {
  const int64_t before = held_bytes();
  const auto block = ProbeBlock(1 << 20);
  return held_bytes() - before >= 1 << 20;
}

}  // namespace millrace::augment::testing

#endif  // MILLRACE_TESTS_AUGMENT_HEAP_TESTING_H_
