#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_LAYER_COMPILER_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_LAYER_COMPILER_H_

#include <dnnl.hpp>
#include <span>
#include <utility>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/backend/onednn/operations.h"
#include "trainer/backend/onednn/value_memory.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"

namespace millrace::trainer {

// A model and its tensors, which a network borrows.
struct NetworkTensors {
  const Model& model;
  const TensorSet& weights;
  const TensorSet& buffers;
  std::span<const std::span<float>> gradients;  // of the parameters; empty: no training
};

// The parts of a network that all of its layers share.
struct NetworkParts {
  const NetworkTensors& tensors;
  const dnnl::engine& engine;
  ValueMemory& values;
  TensorSet& statistics;  // of the last batch, for each buffer
  const StepInput& step;  // of the last batch
  const BackendOptions& options;
};

// Turns one layer into operations. A layer's compile function reads its tensors here, and adds to
// `out`. Weights take the layout that each primitive likes best, with a reorder only where that is
// not the plain one. All calls may throw dnnl::error.
class LayerCompiler {
 public:
  LayerCompiler(NetworkParts& parts, size_t layer, CompiledLayer& out);

  const Layer& layer() const { return layer_; }
  const dnnl::engine& engine() const { return parts_.engine; }
  bool is_training() const { return !parts_.tensors.gradients.empty(); }
  dnnl::prop_kind forward_kind() const {
    return is_training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  }
  // True if the layer is to apply the ReLU that follows it.
  bool has_fused_relu() const { return parts_.values.HasFusedRelu(index_); }
  // True for a ReLU that the layer before has applied, and for layers that a batch norm does.
  bool is_fused() const { return parts_.values.IsFused(index_); }
  // True for a layer whose backward pass another layer does.
  bool is_done_backward() const {
    return parts_.values.fusion().host(index_) >= 0 || parts_.values.IsMasked(index_);
  }
  // True for a max pool that does the backward pass of the ReLU before it.
  bool masks_source() const { return parts_.values.MasksSource(index_); }

  const dnnl::memory& source(size_t slot = 0) const;
  const dnnl::memory& output() const;
  const dnnl::memory& output_gradient() const;
  // The memory to which the gradient of an input is to be written; empty: nothing reads it.
  dnnl::memory source_gradient(size_t slot = 0);

  // Of a batch norm: the layers that it does, the value that it adds, the result behind them, and
  // the terms of that result's gradient, of which the second may be empty.
  const FusedNorm& fused() const { return parts_.values.fusion().norm(index_); }
  dnnl::memory addend() const;
  const dnnl::memory& more_gradient() const;
  // The memory to which the gradient of the addend is to be copied; empty: it is there already.
  dnnl::memory addend_gradient();
  // Elements between layers are of bfloat16 if it is kHalf.
  dnnl::memory::data_type type() const { return parts_.values.type(); }
  int threads() const { return parts_.options.threads; }
  const SumOverRanksFunction& sum_over_ranks() const { return parts_.options.sum_over_ranks; }
  // The memory with another description, sharing its bytes.
  dnnl::memory View(const dnnl::memory& memory, const dnnl::memory::desc& desc) {
    return parts_.values.View(memory, desc);
  }
  // The memory as [rows, values], sharing its bytes.
  dnnl::memory Flattened(const dnnl::memory& memory);

  const Shape& source_shape() const { return model().values[layer_.inputs[0]].shape; }
  // The elements of a parameter, a buffer, and the statistics that a buffer follows.
  std::span<const float> Weights(int parameter) const { return parts_.tensors.weights[parameter]; }
  std::span<float> Gradient(int parameter) const { return parts_.tensors.gradients[parameter]; }
  std::span<const float> Buffer(int buffer) const { return parts_.tensors.buffers[buffer]; }
  std::span<float> Statistics(int buffer) const { return parts_.statistics[buffer]; }
  // The batch that the operations run on.
  const StepInput& step() const { return parts_.step; }

  // The memory of a parameter, and of its gradient, as [dims] in plain layout.
  dnnl::memory Parameter(int parameter, const dnnl::memory::dims& dims) const;
  dnnl::memory ParameterGradient(int parameter, const dnnl::memory::dims& dims) const;
  // The same with any description.
  dnnl::memory Parameter(int parameter, const dnnl::memory::desc& desc) const;
  dnnl::memory ParameterGradient(int parameter, const dnnl::memory::desc& desc) const;

  dnnl::memory NewMemory(const dnnl::memory::desc& desc) const { return {desc, engine()}; }
  // `plain` in the layout of `wanted`: itself, or a copy that `list` makes.
  dnnl::memory Reordered(const dnnl::memory& plain, const dnnl::memory::desc& wanted,
                         OperationList& list) const;
  // The memory to which a gradient primitive writes so that `plain` ends up filled; the reorder
  // comes from AddWriteBack, after the primitive.
  dnnl::memory Target(const dnnl::memory& plain, const dnnl::memory::desc& wanted) const;
  static void AddWriteBack(const dnnl::memory& made, const dnnl::memory& plain,
                           OperationList& list);

  // Adds the gradients of values with several readers up. After the compile function.
  void AddUpGradients();

  CompiledLayer& out;

 private:
  // The memory for the gradient of input `slot` of layer `i`.
  dnnl::memory GradientOf(size_t i, size_t slot);
  // The value behind the layers that a batch norm does; of other layers, their output.
  int ResultOfNorm() const;
  const Model& model() const { return parts_.tensors.model; }

  NetworkParts& parts_;
  const size_t index_;
  const Layer& layer_;
  // Gradients that are added to those of other readers: the term and the sum.
  std::vector<std::pair<dnnl::memory, dnnl::memory>> terms_;
};

// The description with any layout, of its own elements or others.
dnnl::memory::desc AnyLayout(const dnnl::memory::desc& desc);
dnnl::memory::desc AnyLayout(const dnnl::memory::desc& desc, dnnl::memory::data_type type);
// The description of a bias; an empty one, which stands for no bias, of an empty memory.
dnnl::memory::desc BiasDesc(const dnnl::memory& bias);
// The attributes of a primitive that applies a ReLU too, if there is one for its layer to apply.
dnnl::primitive_attr FusedRelu(const LayerCompiler& compiler);

// Compiles the layer by the row of its kind in this backend's table.
void CompileLayer(LayerCompiler& compiler);

// --- Compile functions ---

void CompileConvolution(LayerCompiler& compiler);
void CompileTransposedConvolution(LayerCompiler& compiler);
void CompilePool(LayerCompiler& compiler);
void CompileMaxPool(LayerCompiler& compiler);
void CompileGlobalAveragePool(LayerCompiler& compiler);
void CompileFullyConnected(LayerCompiler& compiler);
void CompileBatchNorm(LayerCompiler& compiler);
void CompileAdd(LayerCompiler& compiler);
void CompileMultiply(LayerCompiler& compiler);
void CompileConcat(LayerCompiler& compiler);
void CompileReshape(LayerCompiler& compiler);
void CompileDropout(LayerCompiler& compiler);
void CompileActivation(LayerCompiler& compiler);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_LAYER_COMPILER_H_
