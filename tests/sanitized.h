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

// True if a test takes not all combinations of its settings, but each setting at least once.
inline bool TakesFewSettings() { return SampleStride() > 1; }

// How many of `all` rounds a test takes whose threads meet in another way in each: with a sanitizer
// a quarter.
template <typename Number>
Number RacingRounds(Number all) {
  return TakesFewSettings() ? (all + 3) / 4 : all;
}

// The distance between the photographs that a test takes, which cost milliseconds each: five
// without a sanitizer too, since they differ less from each other than drawn inputs do.
inline size_t PhotographStride() {
  static const bool all = std::getenv("MILLRACE_ALL_ROUNDS") != nullptr;
  return all ? 1 : kSanitized ? 19 : 5;
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
std::vector<Input> Sampled(std::vector<Input> all, size_t stride = SampleStride()) {
  std::vector<Input> taken;
  for (size_t i = 0; i < all.size(); i += stride) taken.push_back(std::move(all[i]));
  return taken;
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_SANITIZED_H_
