#ifndef MILLRACE_TRAINER_MODEL_LAYERS_TABLE_H_
#define MILLRACE_TRAINER_MODEL_LAYERS_TABLE_H_

#include <span>

#include "trainer/model/layers/row.h"

// All kinds of layers, and look-ups in their rows.

namespace millrace::trainer {

// In the order of the documentation.
std::span<const LayerFamily> LayerFamilies();

// The row of a kind; null: the kind is an input, a loss, or not set.
const LayerRow* FindRow(LayerSpec::KindCase kind);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_LAYERS_TABLE_H_
