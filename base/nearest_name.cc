#include "base/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr size_t kMaxNameBytes = 256;  // longer ones are not compared
constexpr size_t kMaxListed = 24;

char Fold(char c) { return absl::ascii_tolower(static_cast<unsigned char>(c)); }

}  // namespace

// By the last three rows of the table.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replace = last[j] + (Fold(a[i]) == Fold(b[j]) ? 0 : 1);
      row[j + 1] = std::min({replace, row[j] + 1, last[j + 1] + 1});
      const bool swapped =
          i > 0 && j > 0 && Fold(a[i]) == Fold(b[j - 1]) && Fold(a[i - 1]) == Fold(b[j]);
      if (swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

std::vector<std::string> NearestNames(std::string_view name,
                                      std::span<const std::string> candidates, size_t max_names) {
  if (name.size() > kMaxNameBytes) return {};
  const size_t farthest = std::max<size_t>(1, name.size() / 3);
  std::vector<std::pair<size_t, const std::string*>> near;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kMaxNameBytes) continue;
    const size_t distance = EditDistance(name, candidate);
    const bool shares =
        distance < std::max(name.size(), candidate.size());  // a letter in its place
    if (distance <= farthest && shares) near.emplace_back(distance, &candidate);
  }
  std::ranges::stable_sort(near, {}, [](const auto& entry) { return entry.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(near.size(), max_names); ++i) names.push_back(*near[i].second);
  return names;
}

std::string NearestName(std::string_view name, std::span<const std::string> candidates) {
  const std::vector<std::string> nearest = NearestNames(name, candidates, 1);
  return nearest.empty() ? "" : nearest[0];
}

std::string DidYouMean(std::string_view name, std::span<const std::string> candidates) {
  const std::string nearest = NearestName(name, candidates);
  if (!nearest.empty()) return absl::StrCat("; did you mean \"", nearest, "\"?");
  if (candidates.empty()) return "";
  std::string list;
  for (size_t i = 0; i < std::min(candidates.size(), kMaxListed); ++i) {
    absl::StrAppend(&list, i == 0 ? "" : ", ", candidates[i]);
  }
  return absl::StrCat("; there is: ", list, candidates.size() > kMaxListed ? ", ..." : "");
}

}  // namespace millrace
