#ifndef MILLRACE_TRAINER_MODELS_H_
#define MILLRACE_TRAINER_MODELS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::trainer {

// The sizes of a network that is written as a model file.
struct NetworkSizes {
  int64_t classes = 0;               // 0: the network's own
  std::vector<int64_t> image = {};   // height, width, channels; empty: the network's own
  int64_t width = 0;                 // channels of the first convolution; 0: the network's own
  std::vector<int64_t> hidden = {};  // outputs of each hidden layer; empty: the network's own
  bool is_uint8 = false;             // true for images of uint8, which the input layer normalizes
};

// The networks that WriteModel knows: {"mlp", "lenet", "resnet18", ...}.
std::vector<std::string> NetworkNames();

// The text of a model file with the layers of a network.
//   NOT_FOUND         no network has this name; the text lists those that there are
//   INVALID_ARGUMENT  the network does not fit the sizes, or has no choice of one; the text names
//                     the layer or the size
absl::StatusOr<std::string> WriteModel(std::string_view network, const NetworkSizes& sizes);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODELS_H_
