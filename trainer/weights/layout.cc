#include "trainer/weights/layout.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace millrace::trainer {
namespace {

// The layer that makes `value`; null if it is an input of the model.
const Layer* MakerOf(const Model& model, int value) {
  const auto found =
      std::ranges::find_if(model.layers, [&](const Layer& layer) { return layer.output == value; });
  return found == model.layers.end() ? nullptr : &*found;
}

// The shape of the image whose elements `value` holds in their order; a rank other than 3 if it
// holds none. Of the layers that read one value, only those of one element each keep the extent.
Shape ImageIn(const Model& model, int value) {
  const Shape flat = model.values[value].shape;
  while (model.values[value].shape.rank() != 3) {
    const Layer* maker = MakerOf(model, value);
    if (maker == nullptr || maker->inputs.size() != 1 || maker->weights >= 0) return flat;
    if (model.values[maker->inputs[0]].shape.num_elements() != flat.num_elements()) return flat;
    value = maker->inputs[0];
  }
  return model.values[value].shape;
}

// The image that the fully connected layer with the weights `i` reads; a rank other than 3 if there
// is none.
Shape ImageOfWeights(const Model& model, size_t i) {
  for (const Layer& layer : model.layers) {
    if (layer.kind == LayerKind::kFullyConnected && layer.weights == static_cast<int>(i)) {
      return ImageIn(model, layer.inputs[0]);
    }
  }
  return {};
}

// Each row of `from` is an image [rows, columns], which becomes [columns, rows].
std::vector<float> TransposeImages(std::span<const float> from, int64_t rows, int64_t columns) {
  std::vector<float> to(from.size());
  const auto size = static_cast<size_t>(rows * columns);
  for (size_t image = 0; size > 0 && image < from.size(); image += size) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        to[image + column * rows + row] = from[image + row * columns + column];
      }
    }
  }
  return to;
}

// The two endings of names, ours first.
constexpr std::pair<std::string_view, std::string_view> kEndings[] = {
    {"/weights", ".weight"},
    {"/bias", ".bias"},
    {"/running_mean", ".running_mean"},
    {"/running_var", ".running_var"},
};

}  // namespace

std::string TorchName(std::string_view name) {
  for (const auto& [ours, torch] : kEndings) {
    if (name.ends_with(ours)) {
      return std::string(name.substr(0, name.size() - ours.size())).append(torch);
    }
  }
  return std::string(name);
}

std::vector<float> ToTorchLayout(const Model& model, size_t i, std::span<const float> ours) {
  const Shape image = ImageOfWeights(model, i);
  if (image.rank() != 3) return {ours.begin(), ours.end()};
  return TransposeImages(ours, image[0] * image[1], image[2]);
}

std::vector<float> FromTorchLayout(const Model& model, size_t i, std::span<const float> torch) {
  const Shape image = ImageOfWeights(model, i);
  if (image.rank() != 3) return {torch.begin(), torch.end()};
  return TransposeImages(torch, image[2], image[0] * image[1]);
}

}  // namespace millrace::trainer
