#ifndef MILLRACE_CLI_TUNE_COMPARISON_H_
#define MILLRACE_CLI_TUNE_COMPARISON_H_

#include <vector>

// The measurements of one pair of settings. Turns of both sides follow each other, so the gain is
// the mean of the ratios within these pairs: other work on the machine that lasts longer than a
// turn hits both alike, and shorter work shows as noise, the uncertainty of that mean.

namespace millrace::cli {

// A gain that is worth a change (Cachew's limit), and a loss that is none.
inline constexpr double kWorthwhile = 0.03;
inline constexpr double kEqual = 0.01;

// Samples per second of the turns of one side.
class Turns {
 public:
  void Add(double rate) { rates_.push_back(rate); }
  int size() const { return static_cast<int>(rates_.size()); }
  const std::vector<double>& rates() const { return rates_; }
  double best() const;  // 0: no turn
  // Half of the difference between the best and the worst turn, as a fraction of the best.
  double spread() const;

 private:
  std::vector<double> rates_;
};

// The comparison of turns that ran in pairs. REQUIRES: as many turns of both, at least two.
struct Comparison {
  double gain = 0;   // by how much the later one is faster, as a fraction
  double error = 0;  // the standard error of the gain
  double noise = 0;  // the gain is so far from the truth in one case of 100
};
Comparison Compare(const Turns& before, const Turns& after);

// True if the gain is worth a change and is more than the noise.
bool IsFaster(const Comparison& comparison);
// True if further turns could still show a gain that is worth a change.
bool MayBeFaster(const Comparison& comparison);
// True if no loss is seen, where the noise would let one be seen.
bool IsAsFast(const Comparison& comparison);
// True if further turns could still show that nothing is lost.
bool MayBeAsFast(const Comparison& comparison);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_COMPARISON_H_
