#ifndef MILLRACE_BASE_NEAREST_NAME_H_
#define MILLRACE_BASE_NEAREST_NAME_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What somebody who misspelt a name probably meant. Thread-safe.

namespace millrace {

// How many insertions, deletions, replacements and swaps of neighbours turn `a` into `b`, where no
// place is edited twice (optimal string alignment); letter case is ignored. O(a * b) time.
size_t EditDistance(std::string_view a, std::string_view b);

// Returns at most `max_names` of the candidates that are near `name`, nearest first, equals in
// their order: the edit distance is at most a third of the name's length (and at least 1). Names of
// more than 256 bytes are near nothing.
std::vector<std::string> NearestNames(std::string_view name,
                                      std::span<const std::string> candidates, size_t max_names);

// The first of NearestNames, or "".
std::string NearestName(std::string_view name, std::span<const std::string> candidates);

// Returns "; did you mean \"x\"?", or "; there is: a, b, c" when nothing is near (the first 24), or
// "" without candidates.
std::string DidYouMean(std::string_view name, std::span<const std::string> candidates);

}  // namespace millrace

#endif  // MILLRACE_BASE_NEAREST_NAME_H_
