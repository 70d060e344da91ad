#ifndef MILLRACE_TRAINER_OPTIMIZER_UPDATE_RULE_H_
#define MILLRACE_TRAINER_OPTIMIZER_UPDATE_RULE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/optimizer/elements.h"

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

// The arithmetic of one optimizer, element by element, in one pass. Immutable: the state lies in
// slots, which are zeros before the first update.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  // The names of its slots: "momentum".
  virtual std::vector<std::string> slots() const = 0;

  // The rule of its trust ratios; nullopt: it has none.
  virtual std::optional<TrustRule> trust() const { return std::nullopt; }

  // The arithmetic of the elements of one update, of the same kind at every update.
  virtual UpdateElement ElementOf(const UpdateNumbers& numbers) const = 0;

  // "SGD, momentum 0.9 (Nesterov)" for the start-up table.
  virtual std::string Describe() const = 0;
};

// Applies `gradient` to `weights` by `element`. `slots` has the memory of each slot. All are of the
// same elements, and apart. Thread-safe for different elements; throws nothing.
void UpdateElements(const UpdateElement& element, std::span<const float> gradient,
                    std::span<float> weights, std::span<float* const> slots);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_UPDATE_RULE_H_
