#include "trainer/optimizer/update_rule.h"

#include <cstddef>

namespace millrace::trainer {
namespace {

// Slots that there are not stand for the first one, which is not touched by their names.
template <typename Element>
void UpdateEach(const Element element, std::span<const float> gradient, std::span<float> weights,
                std::span<float* const> slots) {
  constexpr size_t kSlots = Element::kSlots;
  const float* const __restrict g = gradient.data();
  float* const __restrict w = weights.data();
  float* const __restrict a = slots[0];
  float* const __restrict b = slots[kSlots > 1 ? 1 : 0];
  float* const __restrict c = slots[kSlots > 2 ? 2 : 0];
  for (size_t k = 0; k < weights.size(); ++k) {
    float state[kMaxSlots] = {a[k]};
    if constexpr (kSlots > 1) state[1] = b[k];
    if constexpr (kSlots > 2) state[2] = c[k];
    element(g[k], w[k], state);
    a[k] = state[0];
    if constexpr (kSlots > 1) b[k] = state[1];
    if constexpr (kSlots > 2) c[k] = state[2];
  }
}

}  // namespace

void UpdateElements(const UpdateElement& element, std::span<const float> gradient,
                    std::span<float> weights, std::span<float* const> slots) {
  std::visit([&](const auto& one) { UpdateEach(one, gradient, weights, slots); }, element);
}

}  // namespace millrace::trainer
