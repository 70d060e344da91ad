#ifndef MILLRACE_TRAINER_BACKEND_CUDA_PRODUCTS_OF_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_PRODUCTS_OF_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/product.h"
#include "trainer/model/model.h"

// The products that the layers of a model are computed by.

namespace millrace::trainer::cuda {

struct ProductTypes {
  DType type = DType::kF32;  // of activations, and of weights as products read them
  bool tf32 = false;         // as in ProductSpec
};

// The products of one layer, without epilogues. Their names are the layer's view: the forward
// product of a transposed convolution has the pass kDataGradient. Results are of the type that is
// read, but for a fully connected layer's output that losses alone read, which is float32.
struct LayerProducts {
  size_t layer = 0;                            // its number in the model
  ProductSpec forward;                         // the layer's output
  std::optional<ProductSpec> data_gradient;    // the gradient of its input; absent: not needed
  std::optional<ProductSpec> weight_gradient;  // that of its weights; absent: not needed
};

// True if a layer of this kind is computed by products.
bool HasProducts(LayerKind kind);

// For each value of the model, true if its gradient is needed: a parameter lies before it, or it is
// an input of float32 and `use` is kInputGradients. All false where nothing is trained.
std::vector<bool> NeedsGradient(const Model& model, NetworkUse use);

// The channels that a value has in the device's memory. An input image of 16-bit values and 2 to 7
// channels, which convolutions alone read, is padded to 8: cuDNN would do so in each pass, and has
// hardly any epilogue for three channels. The further channels, and the weights that meet them, are
// zeros, and so are the gradients of those weights.
int64_t DeviceChannels(const Model& model, int value, DType type);

// True if layer `layer` reads a folded copy of its input (folding.h): a foldable convolution of an
// input of uint8 or float32 whose gradient is not needed, in 16 bits.
bool ReadsFolded(const Model& model, size_t layer, NetworkUse use, DType type);

// The products of layer `layer`, all three. REQUIRES: HasProducts(its kind), rows >= 1.
LayerProducts ProductsOfLayer(const Model& model, size_t layer, int64_t rows, NetworkUse use,
                              ProductTypes types);

// The products of all layers, in their order, as far as `use` needs them.
std::vector<LayerProducts> ProductsOf(const Model& model, int64_t rows, NetworkUse use,
                                      ProductTypes types);

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_PRODUCTS_OF_H_
