#ifndef MILLRACE_TRAINER_MODEL_JOINT_H_
#define MILLRACE_TRAINER_MODEL_JOINT_H_

#include <span>
#include <string_view>

#include "trainer/model/model.h"

// Several models as one.

namespace millrace::trainer {

// Puts "PREFIX/" before the names of layers, parameters and buffers.
void AddPrefix(std::string_view prefix, Model& model);

// The layers of all `models`, one model after the other. None reads a value of another.
Model Join(std::span<const Model> models);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_JOINT_H_
