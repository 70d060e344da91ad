#ifndef MILLRACE_TESTS_SANITIZED_H_
#define MILLRACE_TESTS_SANITIZED_H_

#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

// What tests do less of with a sanitizer, which takes ten times as long for each round, and reports
// a mistake in the first one that makes it.

namespace millrace {

// MILLRACE_SANITIZED is for a program that would have a malloc of its own, which a sanitizer has.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MILLRACE_SANITIZED 1
#elif defined(__has_feature)
#define MILLRACE_SANITIZED                                                \
  (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
   __has_feature(memory_sanitizer))
#else
#define MILLRACE_SANITIZED 0
#endif

inline constexpr bool kSanitized = MILLRACE_SANITIZED != 0;

// The distance between the drawn inputs that a test takes: 1 is all of them. With a sanitizer it is
// a prime, so that it meets every kind of input that comes in turn, unless MILLRACE_ALL_ROUNDS is
// set, as in scripts/nightly.sh.
inline size_t SampleStride() {
  static const bool all = !kSanitized || std::getenv("MILLRACE_ALL_ROUNDS") != nullptr;
  return all ? 1 : 19;
}

// How many of `all` rounds of drawn input a test takes, at least one.
template <typename Number>
Number Rounds(Number all) {
  const auto stride = static_cast<Number>(SampleStride());
  return (all + stride - 1) / stride;
}

// Of many inputs, those that a test takes that compares two ways to the same result, so
// Rounds(all.size()) of them. Tests that look for mistakes in memory take all.
template <typename Input>
std::vector<Input> Sampled(std::vector<Input> all) {
  std::vector<Input> taken;
  for (size_t i = 0; i < all.size(); i += SampleStride()) taken.push_back(std::move(all[i]));
  return taken;
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_SANITIZED_H_
