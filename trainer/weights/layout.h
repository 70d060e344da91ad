#ifndef MILLRACE_TRAINER_WEIGHTS_LAYOUT_H_
#define MILLRACE_TRAINER_WEIGHTS_LAYOUT_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/model/model.h"

// Names and layouts of tensors in PyTorch's state_dict. Layouts differ where a fully connected
// layer reads an image: its inputs run over height, width, channels here, over channels, height,
// width there.

namespace millrace::trainer {

// "conv1.weight" for the parameter "conv1/weights", "bn1.running_mean" for the buffer
// "bn1/running_mean".
std::string TorchName(std::string_view name);

// The elements of parameter `i` of `model` in PyTorch's layout, from ours.
std::vector<float> ToTorchLayout(const Model& model, size_t i, std::span<const float> ours);
// The way back.
std::vector<float> FromTorchLayout(const Model& model, size_t i, std::span<const float> torch);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_WEIGHTS_LAYOUT_H_
