#include "collectives/stragglers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

namespace millrace::collectives {
namespace {

constexpr double kShortest = 1e-6;

}  // namespace

std::string Straggler::ToString() const {
  return absl::StrFormat("rank %d is awaited: median %.1f ms, max %.1f ms", rank,
                         1e3 * median_seconds, 1e3 * max_seconds);
}

void Stragglers::Add(std::span<const double> waits) {
  ++num_steps_;
  if (waits.size() < 2) return;
  sorted_.assign(waits.begin(), waits.end());
  std::ranges::sort(sorted_);
  const size_t middle = (sorted_.size() - 1) / 2;  // of the others: the upper one of two
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const bool own_is_before = waits[rank] <= sorted_[middle];
    const double others = sorted_[own_is_before ? middle + 1 : middle];
    const double late = std::max(0.0, others - waits[rank]);
    Waits& sum = ranks_[rank];
    ++sum.bins[BinOf(late)];
    sum.max = std::max(sum.max, late);
  }
}

size_t Stragglers::BinOf(double seconds) {
  if (!(seconds >= kShortest)) return 0;
  const double bin = std::floor(kBinsPerOctave * std::log2(seconds / kShortest));
  return 1 + static_cast<size_t>(std::min(bin, static_cast<double>(kBins - 1)));
}

Straggler Stragglers::of(int rank) const {
  const Waits& waits = ranks_[static_cast<size_t>(rank)];
  uint64_t below = 0;
  size_t bin = 0;
  const auto half = static_cast<uint64_t>(num_steps_) / 2;
  while (bin < kBins && below + waits.bins[bin] <= half) below += waits.bins[bin++];
  double median = 0;
  if (bin > 0) {
    const double middle = (static_cast<double>(bin) - 0.5) / kBinsPerOctave;
    median = std::min(waits.max, kShortest * std::exp2(middle));
  }
  return {rank, median, waits.max};
}

std::optional<Straggler> Stragglers::Slowest() const {
  std::optional<Straggler> slowest;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    const Straggler one = of(rank);
    const auto length = [](const Straggler& s) {
      return std::pair(s.median_seconds, s.max_seconds);
    };
    if (one.max_seconds > 0 && (!slowest || length(one) > length(*slowest))) slowest = one;
  }
  return slowest;
}

}  // namespace millrace::collectives
