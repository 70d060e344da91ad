#ifndef MILLRACE_TRAINER_OPTIMIZER_UPDATE_RULE_H_
#define MILLRACE_TRAINER_OPTIMIZER_UPDATE_RULE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace millrace::trainer {

// Norms of a whole parameter.
struct ParameterNorms {
  double weights = 0;
  double gradient = 0;
};

// The numbers of one update of one piece.
struct UpdateNumbers {
  uint64_t count = 1;        // number of this update, from 1
  double rate = 0;           // learning rate
  float gradient_scale = 1;  // factor of each element of the gradient
  float weight_decay = 0;
  std::optional<ParameterNorms> norms;  // of a parameter with a trust ratio
};

// The most slots that an optimizer has.
inline constexpr size_t kMaxSlots = 3;

// The arithmetic of one optimizer, element by element, in one pass. Immutable: the state lies in
// slots, which are zeros before the first update.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  // The names of its slots: "momentum".
  virtual std::vector<std::string> slots() const = 0;

  // True if it has trust ratios.
  virtual bool wants_norms() const { return false; }

  // Applies `gradient` to `weights`. `slots` has the memory of each slot. All are of the same
  // elements. Thread-safe for different elements; throws nothing.
  virtual void Apply(const UpdateNumbers& numbers, std::span<const float> gradient,
                     std::span<float> weights, std::span<float* const> slots) const = 0;

  // "SGD, momentum 0.9 (Nesterov)" for the start-up table.
  virtual std::string Describe() const = 0;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_UPDATE_RULE_H_
