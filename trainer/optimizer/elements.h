#ifndef MILLRACE_TRAINER_OPTIMIZER_ELEMENTS_H_
#define MILLRACE_TRAINER_OPTIMIZER_ELEMENTS_H_

#include <cmath>
#include <cstddef>
#include <variant>

// The arithmetic of an optimizer for one element, with the numbers of one update. The loops of the
// CPU and the kernels of a device are made of the same lines, and neither fuses operations: for
// equal arguments the bits are equal.

#ifdef __CUDACC__
#define MILLRACE_ELEMENT_FUNCTION __host__ __device__
#else
#define MILLRACE_ELEMENT_FUNCTION
#endif

namespace millrace::trainer {

// The most slots that an optimizer has.
inline constexpr size_t kMaxSlots = 3;

// Calls update `weight` by `gradient`, and the element's state in `slots`, kSlots numbers.

template <bool kNesterov>
struct SgdElement {
  static constexpr size_t kSlots = 1;
  float scale = 1;  // of the gradient
  float decay = 0;
  float momentum = 0;
  float rate = 0;

  MILLRACE_ELEMENT_FUNCTION void operator()(float gradient, float& weight, float* slots) const {
    const float direction = scale * gradient + decay * weight;
    const float moved = momentum * slots[0] + direction;
    slots[0] = moved;
    weight -= rate * (kNesterov ? direction + momentum * moved : moved);
  }
};

// Of Adam and AdamW; in the order of PyTorch's operations.
struct AdamElement {
  static constexpr size_t kSlots = 2;
  float scale = 1;
  float decay = 0;  // as a part of the gradient
  float kept = 1;   // factor of the weight: the decay apart from the gradient
  float part1 = 0;  // 1 - beta1
  float beta2 = 0;
  float part2 = 0;  // 1 - beta2
  float root = 1;   // of the correction of the second mean's zero start
  float epsilon = 0;
  float rate = 0;  // with the correction of the first mean

  MILLRACE_ELEMENT_FUNCTION void operator()(float gradient, float& weight, float* slots) const {
    const float direction = scale * gradient + decay * weight;
    slots[0] += part1 * (direction - slots[0]);
    slots[1] = beta2 * slots[1] + part2 * direction * direction;
    weight = kept * weight - rate * slots[0] / (std::sqrt(slots[1]) / root + epsilon);
  }
};

// Slots: the mean square; the momentum, if there is one; the mean, if it is centered.
template <bool kMomentum, bool kCentered>
struct RmsPropElement {
  static constexpr size_t kSlots = 1 + kMomentum + kCentered;
  float scale = 1;
  float decay = 0;
  float alpha = 0;
  float part = 0;  // 1 - alpha
  float epsilon = 0;
  float momentum = 0;
  float rate = 0;

  MILLRACE_ELEMENT_FUNCTION void operator()(float gradient, float& weight, float* slots) const {
    const float direction = scale * gradient + decay * weight;
    slots[0] = alpha * slots[0] + part * direction * direction;
    float variance = slots[0];
    if constexpr (kCentered) {
      float& mean = slots[kSlots - 1];
      mean += part * (direction - mean);
      variance = variance - mean * mean;
      variance = variance < 0 ? 0 : variance;  // below 0 by rounding alone
    }
    float move = direction / (std::sqrt(variance) + epsilon);
    if constexpr (kMomentum) move = slots[1] = momentum * slots[1] + move;
    weight -= rate * move;
  }
};

struct LarsElement {
  static constexpr size_t kSlots = 1;
  float scale = 1;
  float decay = 0;
  float momentum = 0;
  float rate = 0;
  float trust = 1;  // the ratio of the parameter

  MILLRACE_ELEMENT_FUNCTION void operator()(float gradient, float& weight, float* slots) const {
    const float direction = scale * gradient + decay * weight;
    const float moved = momentum * slots[0] + trust * direction;
    slots[0] = moved;
    weight -= rate * moved;
  }
};

// One of them, by the optimizer.
using UpdateElement =
    std::variant<SgdElement<false>, SgdElement<true>, AdamElement, RmsPropElement<false, false>,
                 RmsPropElement<false, true>, RmsPropElement<true, false>,
                 RmsPropElement<true, true>, LarsElement>;

// The rule of trust ratios, by which a parameter's rate goes with the norm of its weights.
struct TrustRule {
  double coefficient = 0;
  double epsilon = 0;

  // The ratio of a parameter, by the norms of its weights and of its gradient.
  MILLRACE_ELEMENT_FUNCTION float Ratio(double weights, double gradient, float decay) const {
    if (weights == 0 || gradient == 0) return 1;
    const double length = gradient + double{decay} * weights + epsilon;
    return static_cast<float>(coefficient * weights / length);
  }
};

// Of an exponential moving average of weights.
struct AverageElement {
  float part = 0;  // of the newest weights

  MILLRACE_ELEMENT_FUNCTION void operator()(float newest, float& average) const {
    average += part * (newest - average);
  }
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_ELEMENTS_H_
