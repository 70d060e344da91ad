// Convolutions and pools.

#include "trainer/backend/onednn/layer_compiler.h"

namespace millrace::trainer {

using dnnl::algorithm;
using dnnl::memory;

namespace {

constexpr auto kDirect = algorithm::convolution_direct;

memory::dims Dims(const std::array<int64_t, 2>& pair) { return {pair[0], pair[1]}; }

// A window as primitives take it.
struct Sizes {
  explicit Sizes(const Window& window)
      : kernel(Dims(window.kernel)), stride(Dims(window.stride)), padding(Dims(window.padding)) {}

  memory::dims kernel;
  memory::dims stride;
  memory::dims padding;
};

struct ConvolutionTensors {
  memory weights;
  memory bias;
  memory::dims weights_dims;
  memory::dims bias_dims;
};

ConvolutionTensors TensorsOf(const LayerCompiler& compiler) {
  const Layer& layer = compiler.layer();
  const int64_t filters = compiler.output().get_desc().dims()[1];
  const int64_t channels = compiler.source().get_desc().dims()[1];
  const Window& window = layer.window();
  ConvolutionTensors tensors;
  tensors.weights_dims = {filters, channels, window.kernel[0], window.kernel[1]};
  tensors.bias_dims = {filters};
  tensors.weights = compiler.Parameter(layer.weights, tensors.weights_dims);
  tensors.bias = compiler.Parameter(layer.bias, tensors.bias_dims);
  return tensors;
}

void AddConvolutionGradients(LayerCompiler& compiler, const ConvolutionTensors& tensors,
                             const dnnl::convolution_forward::primitive_desc& forward) {
  const Layer& layer = compiler.layer();
  const Sizes sizes(layer.window());
  const memory::desc source = compiler.source().get_desc();
  const memory::desc weights = AnyLayout(tensors.weights.get_desc());
  const memory::desc output = compiler.output().get_desc();
  const dnnl::convolution_backward_weights::primitive_desc gradient(
      {kDirect, source, weights, tensors.bias.get_desc(), output, sizes.stride, sizes.padding,
       sizes.padding},
      compiler.engine(), forward);
  const memory plain = compiler.ParameterGradient(layer.weights, tensors.weights_dims);
  const memory made = compiler.Target(plain, gradient.diff_weights_desc());
  compiler.out.gradients.Add(
      dnnl::convolution_backward_weights(gradient),
      {{DNNL_ARG_SRC, compiler.source()},
       {DNNL_ARG_DIFF_DST, compiler.output_gradient()},
       {DNNL_ARG_DIFF_WEIGHTS, made},
       {DNNL_ARG_DIFF_BIAS, compiler.ParameterGradient(layer.bias, tensors.bias_dims)}});
  LayerCompiler::AddWriteBack(made, plain, compiler.out.gradients);
  const memory source_gradient = compiler.source_gradient();
  if (!source_gradient) return;

  const dnnl::convolution_backward_data::primitive_desc data(
      {kDirect, source, weights, output, sizes.stride, sizes.padding, sizes.padding},
      compiler.engine(), forward);
  const memory data_weights =
      compiler.Reordered(tensors.weights, data.weights_desc(), compiler.out.data);
  compiler.out.data.Add(dnnl::convolution_backward_data(data),
                        {{DNNL_ARG_DIFF_DST, compiler.output_gradient()},
                         {DNNL_ARG_WEIGHTS, data_weights},
                         {DNNL_ARG_DIFF_SRC, source_gradient}});
}

}  // namespace

void CompileConvolution(LayerCompiler& compiler) {
  const Sizes sizes(compiler.layer().window());
  const ConvolutionTensors tensors = TensorsOf(compiler);
  const dnnl::convolution_forward::primitive_desc forward(
      {compiler.forward_kind(), kDirect, compiler.source().get_desc(),
       AnyLayout(tensors.weights.get_desc()), tensors.bias.get_desc(), compiler.output().get_desc(),
       sizes.stride, sizes.padding, sizes.padding},
      FusedRelu(compiler), compiler.engine());
  const memory weights =
      compiler.Reordered(tensors.weights, forward.weights_desc(), compiler.out.forward);
  compiler.out.forward.Add(dnnl::convolution_forward(forward), {{DNNL_ARG_SRC, compiler.source()},
                                                                {DNNL_ARG_WEIGHTS, weights},
                                                                {DNNL_ARG_BIAS, tensors.bias},
                                                                {DNNL_ARG_DST, compiler.output()}});
  if (compiler.is_training()) AddConvolutionGradients(compiler, tensors, forward);
}

void CompilePool(LayerCompiler& compiler) {
  const algorithm kind = compiler.layer().kind == LayerKind::kMaxPool
                             ? algorithm::pooling_max
                             : algorithm::pooling_avg_exclude_padding;
  const Sizes sizes(compiler.layer().window());
  const memory::desc source = compiler.source().get_desc();
  const memory::desc output = compiler.output().get_desc();
  const dnnl::pooling_forward::primitive_desc forward(
      {compiler.forward_kind(), kind, source, output, sizes.stride, sizes.kernel, sizes.padding,
       sizes.padding},
      compiler.engine());
  OperationList::Arguments arguments = {{DNNL_ARG_SRC, compiler.source()},
                                        {DNNL_ARG_DST, compiler.output()}};
  memory workspace;  // the places of the maxima
  const bool has_workspace = forward.workspace_desc().get_size() > 0;
  if (has_workspace) {
    workspace = compiler.NewMemory(forward.workspace_desc());
    arguments.emplace(DNNL_ARG_WORKSPACE, workspace);
  }
  compiler.out.forward.Add(dnnl::pooling_forward(forward), std::move(arguments));
  if (!compiler.is_training()) return;
  const memory source_gradient = compiler.source_gradient();
  if (!source_gradient) return;

  const dnnl::pooling_backward::primitive_desc data(
      {kind, source, output, sizes.stride, sizes.kernel, sizes.padding, sizes.padding},
      compiler.engine(), forward);
  arguments = {{DNNL_ARG_DIFF_DST, compiler.output_gradient()},
               {DNNL_ARG_DIFF_SRC, source_gradient}};
  if (has_workspace) arguments.emplace(DNNL_ARG_WORKSPACE, workspace);
  compiler.out.data.Add(dnnl::pooling_backward(data), std::move(arguments));
}

}  // namespace millrace::trainer
