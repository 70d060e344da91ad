#ifndef MILLRACE_BASE_NEAREST_NAME_H_
#define MILLRACE_BASE_NEAREST_NAME_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Suggestions for misspelt names. Thread-safe.

namespace millrace {

// Returns the number of insertions, deletions, replacements and swaps of neighbours that turn `a`
// into `b`, editing no place twice (optimal string alignment). Ignores letter case. O(a * b) time.
size_t EditDistance(std::string_view a, std::string_view b);

// Returns at most `max_names` of the candidates that are near `name`, nearest first, equals in
// their order: the edit distance is at most a third of the name's length (and at least 1). Names of
// more than 256 bytes, and names that share no letter, are not near.
std::vector<std::string> NearestNames(std::string_view name,
                                      std::span<const std::string> candidates, size_t max_names);

// Returns the first of NearestNames, or "".
std::string NearestName(std::string_view name, std::span<const std::string> candidates);

// Returns "; did you mean \"x\"?", or "; there is: a, b, c" when nothing is near (the first 24), or
// "" without candidates.
std::string DidYouMean(std::string_view name, std::span<const std::string> candidates);

}  // namespace millrace

#endif  // MILLRACE_BASE_NEAREST_NAME_H_
