#include "trainer/optimizer/rate_curve.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/job/job.pb.h"

namespace millrace::trainer {
namespace {

// The part of the steps after warm-up that is done before `step`, at most 1.
double PartDone(const CurveSteps& steps, uint64_t step) {
  if (steps.total <= steps.warmup || step >= steps.total) return 1;
  return static_cast<double>(step - steps.warmup) / static_cast<double>(steps.total - steps.warmup);
}

// Half a cosine from `begin` to `end` as `part` goes from 0 to 1.
double HalfCosine(double begin, double end, double part) {
  return end + (begin - end) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

class Constant final : public RateCurve {
 public:
  explicit Constant(const CurveSteps& steps) : steps_(steps) {}
  double RateAt(uint64_t /*step*/) const override { return steps_.full_rate; }
  std::string Describe() const override { return "constant"; }

 private:
  const CurveSteps steps_;
};

class Cosine final : public RateCurve {
 public:
  Cosine(const CosineDecay& spec, const CurveSteps& steps) : steps_(steps), end_(spec.end_lr()) {}
  double RateAt(uint64_t step) const override {
    const double part = PartDone(steps_, step);
    return part == 1 ? end_ : HalfCosine(steps_.full_rate, end_, part);
  }
  std::string Describe() const override { return absl::StrCat("cosine to ", end_); }

 private:
  const CurveSteps steps_;
  const double end_;
};

class Drops final : public RateCurve {
 public:
  Drops(const StepDecay& spec, const CurveSteps& steps)
      : steps_(steps), factor_(spec.has_factor() ? spec.factor() : 0.1) {
    for (const double epoch : spec.epoch()) {
      drops_.push_back(StepsOfEpochs(epoch, steps.per_epoch));
    }
  }
  double RateAt(uint64_t step) const override {
    const auto drops =
        std::ranges::count_if(drops_, [step](uint64_t drop) { return drop <= step; });
    return steps_.full_rate * std::pow(factor_, static_cast<double>(drops));
  }
  std::string Describe() const override {
    std::string text = absl::StrCat("times ", factor_, " at steps");
    for (const uint64_t drop : drops_) absl::StrAppend(&text, " ", drop);
    return text;
  }

 private:
  const CurveSteps steps_;
  const double factor_;
  std::vector<uint64_t> drops_;  // the steps at which the rate is multiplied by factor_
};

class Polynomial final : public RateCurve {
 public:
  Polynomial(const PolynomialDecay& spec, const CurveSteps& steps)
      : steps_(steps), power_(spec.power()), end_(spec.end_lr()) {}
  double RateAt(uint64_t step) const override {
    return end_ + (steps_.full_rate - end_) * std::pow(1 - PartDone(steps_, step), power_);
  }
  std::string Describe() const override {
    return absl::StrCat("polynomial of power ", power_, " to ", end_);
  }

 private:
  const CurveSteps steps_;
  const double power_;
  const double end_;
};

class Exponential final : public RateCurve {
 public:
  Exponential(const ExponentialDecay& spec, const CurveSteps& steps)
      : steps_(steps), factor_(spec.factor()), epochs_(spec.epochs()) {}
  double RateAt(uint64_t step) const override {
    const double epochs =
        static_cast<double>(step - steps_.warmup) / static_cast<double>(steps_.per_epoch);
    return steps_.full_rate * std::pow(factor_, epochs / epochs_);
  }
  std::string Describe() const override {
    return absl::StrCat("times ", factor_, " in ", epochs_, " epochs");
  }

 private:
  const CurveSteps steps_;
  const double factor_;
  const double epochs_;
};

class Restarts final : public RateCurve {
 public:
  Restarts(const CosineRestarts& spec, const CurveSteps& steps)
      : steps_(steps),
        first_(std::max(1.0, spec.epochs() * static_cast<double>(steps.per_epoch))),
        multiplier_(spec.multiplier()),
        end_(spec.end_lr()) {}
  double RateAt(uint64_t step) const override {
    auto since = static_cast<double>(step - steps_.warmup);
    double period = first_;
    if (multiplier_ == 1) since = std::fmod(since, period);
    while (since >= period) {
      since -= period;
      period *= multiplier_;
    }
    return HalfCosine(steps_.full_rate, end_, since / period);
  }
  std::string Describe() const override {
    return absl::StrCat("cosines to ", end_, ", the first over ", first_, " steps, each ",
                        multiplier_, " times as long as the one before");
  }

 private:
  const CurveSteps steps_;
  const double first_;  // steps
  const double multiplier_;
  const double end_;
};

class Cycle final : public RateCurve {
 public:
  Cycle(const OneCycle& spec, const CurveSteps& steps)
      : top_(spec.pct_start() * static_cast<double>(steps.total) - 1),
        last_(static_cast<double>(steps.total) - 1),
        full_(steps.full_rate),
        begin_(full_ / spec.div_factor()),
        end_(begin_ / spec.final_div_factor()) {}
  double RateAt(uint64_t step) const override {
    const auto at = static_cast<double>(step);
    if (at >= last_) return end_;
    if (at <= top_) return HalfCosine(begin_, full_, at / top_);
    const double start = std::max(0.0, top_);
    return HalfCosine(full_, end_, (at - start) / (last_ - start));
  }
  std::string Describe() const override {
    return absl::StrCat("one cycle from ", begin_, " over ", full_, " at step ",
                        std::max(0.0, top_), " to ", end_);
  }

 private:
  const double top_;  // step of the full rate, which may lie between two; below 0: before the first
  const double last_;  // step
  const double full_;
  const double begin_;
  const double end_;
};

}  // namespace

std::unique_ptr<RateCurve> MakeRateCurve(const OptimizerSpec& spec, const CurveSteps& steps) {
  switch (spec.decay_case()) {
    case OptimizerSpec::kCosine:
      return std::make_unique<Cosine>(spec.cosine(), steps);
    case OptimizerSpec::kStep:
      return std::make_unique<Drops>(spec.step(), steps);
    case OptimizerSpec::kPolynomial:
      return std::make_unique<Polynomial>(spec.polynomial(), steps);
    case OptimizerSpec::kExponential:
      return std::make_unique<Exponential>(spec.exponential(), steps);
    case OptimizerSpec::kCosineRestarts:
      return std::make_unique<Restarts>(spec.cosine_restarts(), steps);
    case OptimizerSpec::kOneCycle:
      return std::make_unique<Cycle>(spec.one_cycle(), steps);
    case OptimizerSpec::DECAY_NOT_SET:
      break;
  }
  return std::make_unique<Constant>(steps);
}

uint64_t StepsOfEpochs(double epochs, uint64_t steps_per_epoch) {
  const double steps = std::round(epochs * static_cast<double>(steps_per_epoch));
  return static_cast<uint64_t>(std::min(steps, 1e18));
}

}  // namespace millrace::trainer
