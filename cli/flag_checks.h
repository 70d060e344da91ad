#ifndef MILLRACE_CLI_FLAG_CHECKS_H_
#define MILLRACE_CLI_FLAG_CHECKS_H_

#include <cstdint>
#include <limits>

namespace CLI {
class Validator;
}

// Checks of flags' values (CLI::Option::check). CLI11's own let "-1" through for an unsigned number
// (as 2^64 - 1) and "nan" for any range.

namespace millrace::cli {

inline constexpr uint64_t kMaxInt = std::numeric_limits<int>::max();

// A whole number in [low, high].
CLI::Validator Whole(uint64_t low, uint64_t high = std::numeric_limits<uint64_t>::max());

// A finite number in [low, high].
CLI::Validator Finite(double low, double high);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAG_CHECKS_H_
