#include "cli/top/verdict.h"

#include "absl/strings/str_format.h"
#include "cli/top/difference.h"

namespace millrace::cli {
namespace {

constexpr double kModerate = 0.05;
constexpr double kHigh = 0.20;

}  // namespace

std::string VerdictOf(const Snapshot& difference) {
  if (difference.ranks.empty()) return "opening";
  const RankSnapshot& rank = difference.ranks[0];
  if (!rank.steps && difference.asked_samples_per_second <= 0) {
    return "as fast as the pipeline goes (--pace gives it a consumer)";
  }
  const double share = WaitShareOf(rank);
  if (share < kModerate) return "NOT input-bound";
  return share < kHigh ? "MODERATELY input-bound" : "HIGHLY input-bound";
}

}  // namespace millrace::cli
