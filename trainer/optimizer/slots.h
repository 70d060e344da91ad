#ifndef MILLRACE_TRAINER_OPTIMIZER_SLOTS_H_
#define MILLRACE_TRAINER_OPTIMIZER_SLOTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "trainer/model/model.h"
#include "trainer/model/parameters.h"

namespace millrace::trainer {

// State that an optimizer keeps from step to step: a number for each weight.
struct Slot {
  std::string name;   // "momentum"; a checkpoint has the tensors as "momentum/conv1/weights"
  TensorSet tensors;  // one for each parameter, or for each piece
};

// The slots of one optimizer, in its order.
using Slots = std::vector<Slot>;

// Elements [begin, end) of a parameter.
struct Piece {
  size_t parameter = 0;
  size_t begin = 0;
  size_t end = 0;

  size_t size() const { return end - begin; }
};

// Each parameter as one piece.
std::vector<Piece> WholeParameters(const Model& model);

// Cuts the tensors of `slots`, which are of all parameters, to those of `pieces`.
Slots CutSlots(Slots slots, const std::vector<Piece>& pieces);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_SLOTS_H_
