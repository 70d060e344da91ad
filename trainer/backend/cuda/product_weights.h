#ifndef MILLRACE_TRAINER_BACKEND_CUDA_PRODUCT_WEIGHTS_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_PRODUCT_WEIGHTS_H_

#include "trainer/backend/cuda/layer_compiler.h"

// The weights of a layer as its products have them: as they lie in the model's memory, with padded
// channels, or folded.

namespace millrace::trainer::cuda {

// The weights that the layer's products read. A copy that differs from the model's is made where it
// is first asked for, in the forward pass.
Tensor WeightsOf(LayerCompiler& compiler, const ProductSpec& spec);

// The tensor that a product of the gradient writes, in the type of its result: the gradient `to`
// itself, if it lies so.
Tensor MadeGradient(LayerCompiler& compiler, const ProductSpec& spec, const Tensor& to);

// Brings what the product has made to the gradient, and takes the loss scale out.
void FinishWeightGradient(LayerCompiler& compiler, const ProductSpec& spec, const Tensor& made,
                          const Tensor& to);

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_PRODUCT_WEIGHTS_H_
