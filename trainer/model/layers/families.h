#ifndef MILLRACE_TRAINER_MODEL_LAYERS_FAMILIES_H_
#define MILLRACE_TRAINER_MODEL_LAYERS_FAMILIES_H_

#include "trainer/model/layers/row.h"

// The families of layers, one file each.

namespace millrace::trainer {

LayerFamily WindowLayers();      // convolutions and pools
LayerFamily ProductLayers();     // fully connected
LayerFamily NormLayers();        // normalisation, dropout
LayerFamily JoinLayers();        // several inputs as one, and other shapes
LayerFamily ActivationLayers();  // functions of one element

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_LAYERS_FAMILIES_H_
