#include "trainer/optimizer/slots.h"

#include <utility>

namespace millrace::trainer {

std::vector<Piece> WholeParameters(const Model& model) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    pieces.push_back({i, 0, static_cast<size_t>(model.parameters[i].shape.num_elements())});
  }
  return pieces;
}

Slots CutSlots(Slots slots, const std::vector<Piece>& pieces) {
  for (Slot& slot : slots) {
    TensorSet cut;
    for (const Piece& piece : pieces) {
      std::vector<float>& whole = slot.tensors[piece.parameter];
      if (piece.size() == whole.size()) {
        cut.push_back(std::move(whole));
      } else {
        cut.emplace_back(whole.begin() + static_cast<ptrdiff_t>(piece.begin),
                         whole.begin() + static_cast<ptrdiff_t>(piece.end));
      }
    }
    slot.tensors = std::move(cut);
  }
  return slots;
}

}  // namespace millrace::trainer
