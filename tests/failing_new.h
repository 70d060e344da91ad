#ifndef MILLRACE_TESTS_FAILING_NEW_H_
#define MILLRACE_TESTS_FAILING_NEW_H_

#include <cstddef>
#include <cstdlib>
#include <new>

// An operator new that fails where a test says. It is that of the whole program: one file of a
// program includes this, and is APART in its room.

// ThreadSanitizer has one of its own, and suffers no other.
#if defined(__SANITIZE_THREAD__)
#define MILLRACE_NEW_FAILS 0
#elif defined(__has_feature)
#define MILLRACE_NEW_FAILS (!__has_feature(thread_sanitizer))
#else
#define MILLRACE_NEW_FAILS 1
#endif

namespace millrace {

// True if AllocationsLeft does what it says; a test skips where it is not.
inline constexpr bool kNewFails = MILLRACE_NEW_FAILS != 0;

// While one of these lives, its thread gets so many allocations, and std::bad_alloc after them.
// Thread-compatible; one at a time in a thread.
class AllocationsLeft {
 public:
  explicit AllocationsLeft(int allocations) { left_ = allocations; }
  ~AllocationsLeft() { left_ = -1; }
  AllocationsLeft(const AllocationsLeft&) = delete;
  AllocationsLeft& operator=(const AllocationsLeft&) = delete;

  static void* New(size_t size) {
    const bool fails = left_ == 0;
    if (left_ > 0) --left_;
    void* const memory = fails ? nullptr : std::malloc(size);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }

 private:
  static inline thread_local int left_ = -1;  // negative: no limit
};

}  // namespace millrace

#if MILLRACE_NEW_FAILS
void* operator new(size_t size) { return millrace::AllocationsLeft::New(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

#endif  // MILLRACE_TESTS_FAILING_NEW_H_
