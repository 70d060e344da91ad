#ifndef MILLRACE_TRAINER_BACKEND_CUDA_LAYER_COMPILER_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_LAYER_COMPILER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/cuda/copies.h"
#include "trainer/backend/cuda/network_parts.h"
#include "trainer/backend/cuda/product.h"

namespace millrace::trainer::cuda {

// Turns one layer into operations of the program. A layer's functions read its tensors here.
class LayerCompiler {
 public:
  LayerCompiler(NetworkParts& parts, size_t layer)
      : parts_(parts), index_(layer), layer_(parts.compiled.model.layers[layer]) {}

  const Layer& layer() const { return layer_; }
  const Model& model() const { return parts_.compiled.model; }
  bool is_training() const { return IsTraining(parts_.compiled.use); }
  bool is_fused() const { return values().IsFused(index_); }
  bool has_fused_relu() const { return values().HasFusedRelu(index_); }
  bool fuses() const { return parts_.compiled.fuses; }
  const FusedNorm& fused_norm() const { return values().fusion().norm(index_); }
  int64_t rows() const { return parts_.compiled.rows; }
  DType type() const { return parts_.compiled.type; }
  size_t index() const { return index_; }

  const Values& values() const { return parts_.values; }
  Buffers& buffers() { return parts_.buffers; }
  ProgramBuilder& program() { return parts_.program; }
  NetworkParts& parts() { return parts_; }
  int source_value(size_t slot = 0) const { return layer_.inputs[slot]; }
  const Tensor& source(size_t slot = 0) const { return values().data(layer_.inputs[slot]); }
  const Tensor& output() const { return values().data(layer_.output); }
  const Tensor& output_gradient() const { return values().gradient(layer_.output); }
  // The place for the gradient of a value: where others are there already, this one is added.
  // Targets are asked for in the order in which they are written.
  Target GradientOf(int value);

  // "conv1: forward"
  Draft Named(const std::string& what) const;
  // The same of an operation that completes a value.
  Draft Completing(int value, const std::string& what) const;
  // The same of one for gradients of parameters.
  Draft ForParameters(const std::string& what) const;

  // A product that the device has code for; null: it has none.
  absl::StatusOr<std::shared_ptr<const Product>> TryProduct(const ProductSpec& spec);
  // As TryProduct. UNIMPLEMENTED: there is none; the text names the layer.
  absl::StatusOr<std::shared_ptr<const Product>> MakeProduct(const ProductSpec& spec);
  // Adds a product. `tensors(memory)` makes its tensors.
  template <typename Make>
  void AddProduct(Draft draft, std::shared_ptr<const Product> product, Make tensors);

  // A tensor for as long as its operations need it.
  Tensor NewTensor(const std::string& what, int64_t count, DType type);

 private:
  // The status, with the layer's name.
  absl::Status Annotate(const absl::Status& status) const;

  NetworkParts& parts_;
  const size_t index_;
  const Layer& layer_;
};

template <typename Make>
void LayerCompiler::AddProduct(Draft draft, std::shared_ptr<const Product> product, Make tensors) {
  const size_t bytes = product->workspace_bytes();
  parts_.buffers.Grow(parts_.workspace, bytes);
  const Part workspace = bytes == 0 ? Part() : parts_.workspace.Cut(0, bytes);
  draft.bind = [product = std::move(product), tensors = std::move(tensors),
                workspace](Access& memory) -> Draft::Run {
    const ProductTensors bound = tensors(memory);
    return [product, bound, room = memory.Write(workspace)](Device& device) {
      return product->Run(device.stream(), bound, room);
    };
  };
  program().Add(std::move(draft));
}

// Adds the operations of a network's layers, and what lies between them and the host.
absl::Status CompileProgram(NetworkParts& parts);

// --- Rows of the table of kinds ---

absl::Status ProductForward(LayerCompiler& compiler);
absl::Status ProductBackward(LayerCompiler& compiler);
absl::Status PoolForward(LayerCompiler& compiler);
absl::Status PoolBackward(LayerCompiler& compiler);
absl::Status NormForward(LayerCompiler& compiler);
absl::Status NormBackward(LayerCompiler& compiler);
absl::Status AddForward(LayerCompiler& compiler);
absl::Status AddBackward(LayerCompiler& compiler);
absl::Status MultiplyForward(LayerCompiler& compiler);
absl::Status MultiplyBackward(LayerCompiler& compiler);
absl::Status ConcatForward(LayerCompiler& compiler);
absl::Status ConcatBackward(LayerCompiler& compiler);
absl::Status ReshapeForward(LayerCompiler& compiler);
absl::Status ReshapeBackward(LayerCompiler& compiler);
absl::Status DropoutForward(LayerCompiler& compiler);
absl::Status DropoutBackward(LayerCompiler& compiler);
absl::Status ActivationForward(LayerCompiler& compiler);
absl::Status ActivationBackward(LayerCompiler& compiler);

// --- The ends of a network ---

void CompileInputs(NetworkParts& parts);
void CompileLosses(NetworkParts& parts);
// The gradients of the values that losses read.
void CompileLossGradients(NetworkParts& parts);

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_LAYER_COMPILER_H_
