#include "trainer/backend/cuda/products_of.h"

#include <algorithm>

#include "trainer/backend/cuda/folding.h"

namespace millrace::trainer::cuda {
namespace {

// An image of pixels with channels; a vector is an image of one pixel.
struct Image {
  int64_t height = 1;
  int64_t width = 1;
  int64_t channels = 1;
};

Image ImageOf(const Model& model, int value, DType type) {
  const Shape& shape = model.values[value].shape;
  if (shape.rank() != 3) return {1, 1, shape.num_elements()};
  return {shape[0], shape[1], DeviceChannels(model, value, type)};
}

Image Flattened(const Model& model, int value) {
  return {1, 1, model.values[value].shape.num_elements()};
}

// x is the image that the window slides over, y has its places.
ProductSpec SpecOf(const Image& x, const Image& y, const Window& window) {
  ProductSpec spec;
  spec.height = x.height;
  spec.width = x.width;
  spec.channels = x.channels;
  spec.out_height = y.height;
  spec.out_width = y.width;
  spec.filters = y.channels;
  spec.window = window;
  return spec;
}

ProductSpec SpecOfLayer(const Model& model, const Layer& layer, DType type) {
  const int input = layer.inputs[0];
  const Image to = ImageOf(model, layer.output, type);
  if (layer.kind == LayerKind::kFullyConnected) {
    return SpecOf(Flattened(model, input), to, {.kernel = {1, 1}});
  }
  const Image from = ImageOf(model, input, type);
  const bool is_transposed = layer.kind == LayerKind::kTransposedConvolution;
  return is_transposed ? SpecOf(to, from, layer.window()) : SpecOf(from, to, layer.window());
}

bool HasReader(const Model& model, int value) {
  return std::ranges::any_of(model.layers, [&](const Layer& layer) {
    return std::ranges::find(layer.inputs, value) != layer.inputs.end();
  });
}

// A product that losses alone read is not rounded.
DType ResultOf(const Model& model, const Layer& layer, DType type) {
  const bool is_last = layer.kind == LayerKind::kFullyConnected && !HasReader(model, layer.output);
  return is_last ? DType::kF32 : type;
}

bool IsInput(const Model& model, int value) {
  return std::ranges::any_of(model.inputs,
                             [&](const ModelInput& input) { return input.value == value; });
}

// True for an input whose field can be folded.
bool IsFoldableInput(const Model& model, int value) {
  return std::ranges::any_of(model.inputs, [&](const ModelInput& input) {
    return input.value == value && (input.dtype == DType::kU8 || input.dtype == DType::kF32);
  });
}

bool IsReadByConvolutionsAlone(const Model& model, int value) {
  return std::ranges::all_of(model.layers, [&](const Layer& layer) {
    const bool reads = std::ranges::find(layer.inputs, value) != layer.inputs.end();
    return !reads || (layer.kind == LayerKind::kConvolution && layer.window().groups == 1);
  });
}

bool HasParameters(const Layer& layer) { return layer.weights >= 0 || layer.bias >= 0; }

}  // namespace

bool HasProducts(LayerKind kind) {
  return kind == LayerKind::kConvolution || kind == LayerKind::kTransposedConvolution ||
         kind == LayerKind::kFullyConnected;
}

std::vector<bool> NeedsGradient(const Model& model, NetworkUse use) {
  std::vector<bool> needs(model.values.size());
  if (!IsTraining(use)) return needs;
  for (const ModelInput& input : model.inputs) {
    needs[input.value] = use == NetworkUse::kInputGradients && input.dtype == DType::kF32;
  }
  for (const Layer& layer : model.layers) {
    needs[layer.output] = HasParameters(layer) || std::ranges::any_of(layer.inputs, [&](int value) {
                            return needs[value];
                          });
  }
  return needs;
}

int64_t DeviceChannels(const Model& model, int value, DType type) {
  constexpr int64_t kPadded = 8;
  const Shape& shape = model.values[value].shape;
  const int64_t channels = shape[shape.rank() - 1];
  const bool is_padded = type != DType::kF32 && shape.rank() == 3 && channels > 1 &&
                         channels < kPadded && IsInput(model, value) &&
                         IsReadByConvolutionsAlone(model, value);
  return is_padded ? kPadded : channels;
}

bool ReadsFolded(const Model& model, size_t layer, NetworkUse use, DType type) {
  const Layer& of = model.layers[layer];
  if (of.kind != LayerKind::kConvolution || type == DType::kF32) return false;
  const int input = of.inputs[0];
  return IsFoldableInput(model, input) && IsFoldable(of.window(), model.values[input].shape) &&
         !NeedsGradient(model, use)[input];
}

LayerProducts ProductsOfLayer(const Model& model, size_t layer, int64_t rows, NetworkUse use,
                              ProductTypes types) {
  const Layer& of = model.layers[layer];
  ProductSpec spec = SpecOfLayer(model, of, types.type);
  if (ReadsFolded(model, layer, use, types.type)) spec = Folded(spec);
  spec.rows = rows;
  spec.type = types.type;
  spec.result = types.type;
  spec.tf32 = types.tf32;
  const bool is_transposed = of.kind == LayerKind::kTransposedConvolution;
  LayerProducts products = {layer, spec, spec, spec};
  products.forward.pass = is_transposed ? ProductPass::kDataGradient : ProductPass::kForward;
  products.forward.result = ResultOf(model, of, types.type);
  products.data_gradient->pass = is_transposed ? ProductPass::kForward : ProductPass::kDataGradient;
  products.weight_gradient->pass = ProductPass::kWeightGradient;
  return products;
}

std::vector<LayerProducts> ProductsOf(const Model& model, int64_t rows, NetworkUse use,
                                      ProductTypes types) {
  const std::vector<bool> needs_gradient = NeedsGradient(model, use);
  std::vector<LayerProducts> all;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    if (!HasProducts(model.layers[i].kind)) continue;
    LayerProducts& products = all.emplace_back(ProductsOfLayer(model, i, rows, use, types));
    if (!needs_gradient[model.layers[i].inputs[0]]) products.data_gradient.reset();
    if (!IsTraining(use)) products.weight_gradient.reset();
  }
  return all;
}

}  // namespace millrace::trainer::cuda
