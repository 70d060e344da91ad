#ifndef MILLRACE_TRAINER_OPTIMIZER_RATE_CURVE_H_
#define MILLRACE_TRAINER_OPTIMIZER_RATE_CURVE_H_

#include <cstdint>
#include <memory>
#include <string>

namespace millrace::trainer {

class OptimizerSpec;  // job.proto, which has the formulas

// Learning rates after warm-up. Immutable.
class RateCurve {
 public:
  virtual ~RateCurve() = default;

  // The rate of step `step` of the training, which is not before the end of the warm-up.
  virtual double RateAt(uint64_t step) const = 0;
  // "cosine to 0".
  virtual std::string Describe() const = 0;
};

struct CurveSteps {
  double full_rate = 0;
  uint64_t warmup = 0;     // steps
  uint64_t per_epoch = 0;  // steps
  uint64_t total = 0;      // steps
};

// The curve that `spec`, checked and with its defaults filled in, names.
std::unique_ptr<RateCurve> MakeRateCurve(const OptimizerSpec& spec, const CurveSteps& steps);

// The step at which `epochs` epochs are over; saturates far beyond any job.
uint64_t StepsOfEpochs(double epochs, uint64_t steps_per_epoch);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_RATE_CURVE_H_
