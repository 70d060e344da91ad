#ifndef MILLRACE_CLI_EMULATE_WAIT_HISTOGRAM_H_
#define MILLRACE_CLI_EMULATE_WAIT_HISTOGRAM_H_

#include <array>
#include <cstdint>

namespace millrace::cli {

// The waits of steps, in 32 bins per power of two of nanoseconds: a run of any length takes the
// same memory, and a quantile is at most 1/32 too large. A value type.
class WaitHistogram {
 public:
  // Seconds; a step notices a longer wait.
  static constexpr double kNoticed = 50e-6;

  void Add(double seconds);

  uint64_t count() const { return count_; }
  // The number of waits longer than kNoticed.
  uint64_t num_noticed() const { return num_noticed_; }
  double max() const { return max_; }
  // The smallest bin's upper end below which at least `fraction` of the waits lie, at most max(); 0
  // before the first. REQUIRES: fraction in [0, 1].
  double Quantile(double fraction) const;

 private:
  static constexpr int kPerPower = 32;
  static constexpr int kBins = kPerPower * 60;

  std::array<uint64_t, kBins> bins_{};
  uint64_t count_ = 0;
  uint64_t num_noticed_ = 0;
  double max_ = 0;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_WAIT_HISTOGRAM_H_
