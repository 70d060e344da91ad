#ifndef MILLRACE_COLLECTIVES_STRAGGLERS_H_
#define MILLRACE_COLLECTIVES_STRAGGLERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace millrace::collectives {

// A rank and how long the others waited for it in a step.
struct Straggler {
  int rank = 0;
  double median_seconds = 0;  // over the steps; within 5 %
  double max_seconds = 0;

  // "rank 3 is awaited: median 41.0 ms, max 210.0 ms".
  std::string ToString() const;
};

// Finds the rank that the others wait for, from how long each rank waits in each step. A late rank
// waits least, so the wait for a rank is the median wait of the others minus its own. Waits that
// all ranks share (the network, the sums) cancel out. Among many ranks, two that are late together
// are both found. Thread-compatible; 1 KiB per rank, however many steps.
class Stragglers {
 public:
  explicit Stragglers(int num_ranks) : ranks_(static_cast<size_t>(num_ranks)) {}

  // One step: the seconds that each rank waited in it. REQUIRES: as many as ranks.
  void Add(std::span<const double> waits);
  void Clear() { *this = Stragglers(static_cast<int>(ranks_.size())); }

  int64_t num_steps() const { return num_steps_; }
  Straggler of(int rank) const;
  // The rank with the longest median; of equal ranks, the one with the longest maximum. nullopt: no
  // rank was awaited, or there is only one.
  std::optional<Straggler> Slowest() const;

 private:
  // Bins are powers of 2^(1/8) from a microsecond on; shorter waits count as none.
  static constexpr int kBinsPerOctave = 8;
  static constexpr size_t kBins = size_t{30} * kBinsPerOctave;
  struct Waits {
    std::array<uint32_t, kBins + 1> bins = {};  // the first: below a microsecond
    double max = 0;
  };

  static size_t BinOf(double seconds);

  std::vector<Waits> ranks_;
  std::vector<double> sorted_;  // scratch memory of Add
  int64_t num_steps_ = 0;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_STRAGGLERS_H_
