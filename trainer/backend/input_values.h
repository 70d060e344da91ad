#ifndef MILLRACE_TRAINER_BACKEND_INPUT_VALUES_H_
#define MILLRACE_TRAINER_BACKEND_INPUT_VALUES_H_

#include <span>

#include "base/tensor.h"
#include "trainer/model/model.h"

namespace millrace::trainer {

// Sets `to` to the values of a batch's field, of the input's type: as float32, and those of uint8
// normalised. REQUIRES: `to` has as many elements.
void ReadInput(const ModelInput& input, const ConstTensorView& field, std::span<float> to);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_INPUT_VALUES_H_
