#ifndef MILLRACE_TRAINER_EXPLAIN_LAYER_TABLE_H_
#define MILLRACE_TRAINER_EXPLAIN_LAYER_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/model/model.h"

namespace millrace::trainer {

// Sums over the layers of a model.
struct ModelCost {
  int64_t flops = 0;         // of one sample, forward: two for each multiply-add
  int64_t result_bytes = 0;  // of the inputs' and all layers' results of one sample
};
ModelCost CostOf(const Model& model);

// One line for each input, layer and loss, below a line of titles. `fused_into` has for each layer
// the one that does its work in a pass of its own; -1: none.
std::vector<std::string> LayerTable(const Model& model, const std::vector<int>& fused_into);

// "8.18 G".
std::string WithUnit(double number);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_EXPLAIN_LAYER_TABLE_H_
