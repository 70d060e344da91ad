#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_LAYERS_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_LAYERS_H_

#include <dnnl.hpp>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trainer/model/model.h"
#include "trainer/model/parameters.h"

namespace millrace::trainer {

// Primitives with their arguments, run one after another.
class PrimitiveList {
 public:
  using Arguments = std::unordered_map<int, dnnl::memory>;

  void Add(dnnl::primitive primitive, Arguments arguments) {
    primitives_.emplace_back(std::move(primitive), std::move(arguments));
  }
  void Run(dnnl::stream& stream) const {
    for (const auto& [primitive, arguments] : primitives_) primitive.execute(stream, arguments);
  }

 private:
  std::vector<std::pair<dnnl::primitive, Arguments>> primitives_;
};

// The primitives that one layer runs.
struct CompiledLayer {
  PrimitiveList forward;
  PrimitiveList gradients;  // gradients of the parameters; before `data`
  PrimitiveList data;       // the gradient of the layer's input
};

// A model as oneDNN primitives for one number of rows. Activations and their gradients are NHWC (or
// [rows, values]); weights take the layout each primitive likes best, with a reorder only where
// that is not the plain one. ReLU works in place, and is part of the convolution or product before
// it where there is one, so that an activation is written once. All calls may throw dnnl::error.
class CompiledNet {
 public:
  // `gradients` empty: forward only.
  CompiledNet(const Model& model, const TensorSet& weights,
              std::span<const std::span<float>> gradients, int64_t rows,
              const dnnl::engine& engine);

  // Runs all layers on `images` ([rows, ...] dense); the logits are then in logits().
  void Forward(const float* images, dnnl::stream& stream);
  std::span<float> logits() const { return Values(activations_.back()); }
  // Where the loss writes its gradient before the layers run backward.
  std::span<float> logits_gradient() const { return Values(gradients_.back()); }

  const std::vector<CompiledLayer>& layers() const { return layers_; }

 private:
  struct Tensors;  // what a layer reads and writes

  static std::span<float> Values(const dnnl::memory& memory);
  dnnl::memory NewMemory(const dnnl::memory::desc& desc) const;
  dnnl::memory WrapWeights(const Parameter& parameter, const float* data) const;
  // The memory as [rows, values], sharing its bytes.
  dnnl::memory Flatten(const dnnl::memory& memory);
  // `plain` in the layout of `wanted`: itself, or a copy that `list` makes.
  dnnl::memory Reordered(const dnnl::memory& plain, const dnnl::memory::desc& wanted,
                         PrimitiveList& list) const;
  // Where a gradient primitive writes so that `plain` ends up filled; the reorder comes from
  // AddWriteBack, after the primitive.
  dnnl::memory Target(const dnnl::memory& plain, const dnnl::memory::desc& wanted) const;
  static void AddWriteBack(const dnnl::memory& made, const dnnl::memory& plain,
                           PrimitiveList& list);

  Tensors TensorsOf(size_t i);
  void Compile(size_t i);
  void CompileConvolution(const Layer& layer, const Tensors& tensors, CompiledLayer& out);
  void CompileFullyConnected(const Layer& layer, const Tensors& tensors, CompiledLayer& out);
  void CompilePool(const Layer& layer, const Tensors& tensors, CompiledLayer& out);
  void CompileRelu(const Tensors& tensors, CompiledLayer& out);
  // ReLU as part of the layer before it, when layer i + 1 is one.
  dnnl::primitive_attr FusedRelu(const Layer& layer) const;

  const Model& model_;
  const TensorSet& weights_;
  const std::span<const std::span<float>> parameter_gradients_;
  const bool training_;  // true for layers that are trained
  const int64_t rows_;
  const dnnl::engine engine_;
  dnnl::memory input_;
  std::vector<dnnl::memory> input_views_;  // every memory that must point at the step's images
  std::vector<dnnl::memory> activations_;  // output of each layer; may be that of the one before
  std::vector<dnnl::memory> gradients_;    // gradients of those outputs
  std::vector<CompiledLayer> layers_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_LAYERS_H_
