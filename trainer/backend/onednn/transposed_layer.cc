#include "trainer/backend/onednn/layer_compiler.h"

namespace millrace::trainer {

using dnnl::algorithm;
using dnnl::memory;
using Tag = memory::format_tag;

namespace {

constexpr auto kTransposed = algorithm::deconvolution_direct;

// The sizes and tensors of a transposed convolution as primitives take them.
struct Transposed {
  explicit Transposed(const LayerCompiler& compiler);

  memory::dims stride;
  memory::dims dilation;  // 0: neighbours meet neighbours
  memory::dims begin;     // padding at the top and the left
  memory::dims end;
  memory::desc plain;  // of the weights, which lie as [channels, filters of a group, ...]
  memory::dims bias_dims;
  memory weights;
  memory bias;  // empty: the layer has none
};

Transposed::Transposed(const LayerCompiler& compiler) {
  const Layer& layer = compiler.layer();
  const Window& window = layer.window();
  const int64_t filters = compiler.output().get_desc().dims()[1];
  const int64_t channels = compiler.source().get_desc().dims()[1];
  const auto [height, width] = window.kernel;
  const int64_t groups = window.groups;
  stride = {window.stride[0], window.stride[1]};
  dilation = {window.dilation[0] - 1, window.dilation[1] - 1};
  begin = {window.padding[0], window.padding[2]};
  end = {window.padding[1], window.padding[3]};
  if (groups == 1) {
    plain = {{filters, channels, height, width}, kF32, Tag::iohw};
  } else {
    plain = {{groups, filters / groups, channels / groups, height, width}, kF32, Tag::giohw};
  }
  bias_dims = {filters};
  weights = compiler.Parameter(layer.weights, plain);
  if (layer.bias >= 0) bias = compiler.Parameter(layer.bias, bias_dims);
}

void AddTransposedGradients(LayerCompiler& compiler, const Transposed& spec,
                            const dnnl::deconvolution_forward::primitive_desc& forward) {
  const Layer& layer = compiler.layer();
  const memory::desc source = compiler.source().get_desc();
  const memory::desc output = compiler.output().get_desc();
  const dnnl::deconvolution_backward_weights::primitive_desc gradient(
      {kTransposed, source, AnyLayout(spec.plain), BiasDesc(spec.bias), output, spec.stride,
       spec.dilation, spec.begin, spec.end},
      compiler.engine(), forward);
  const memory plain = compiler.ParameterGradient(layer.weights, spec.plain);
  const memory made = compiler.Target(plain, gradient.diff_weights_desc());
  OperationList::Arguments arguments = {{DNNL_ARG_SRC, compiler.source()},
                                        {DNNL_ARG_DIFF_DST, compiler.output_gradient()},
                                        {DNNL_ARG_DIFF_WEIGHTS, made}};
  if (spec.bias) {
    arguments.emplace(DNNL_ARG_DIFF_BIAS, compiler.ParameterGradient(layer.bias, spec.bias_dims));
  }
  compiler.out.gradients.Add(dnnl::deconvolution_backward_weights(gradient), std::move(arguments));
  LayerCompiler::AddWriteBack(made, plain, compiler.out.gradients);
  const memory source_gradient = compiler.source_gradient();
  if (!source_gradient) return;

  const dnnl::deconvolution_backward_data::primitive_desc data(
      {kTransposed, source, AnyLayout(spec.plain, compiler.type()), output, spec.stride,
       spec.dilation, spec.begin, spec.end},
      compiler.engine(), forward);
  const memory weights = compiler.Reordered(spec.weights, data.weights_desc(), compiler.out.data);
  compiler.out.data.Add(dnnl::deconvolution_backward_data(data),
                        {{DNNL_ARG_DIFF_DST, compiler.output_gradient()},
                         {DNNL_ARG_WEIGHTS, weights},
                         {DNNL_ARG_DIFF_SRC, source_gradient}});
}

}  // namespace

void CompileTransposedConvolution(LayerCompiler& compiler) {
  const Transposed spec(compiler);
  const dnnl::deconvolution_forward::primitive_desc forward(
      {compiler.forward_kind(), kTransposed, compiler.source().get_desc(),
       AnyLayout(spec.plain, compiler.type()), BiasDesc(spec.bias), compiler.output().get_desc(),
       spec.stride, spec.dilation, spec.begin, spec.end},
      compiler.engine());
  const memory weights =
      compiler.Reordered(spec.weights, forward.weights_desc(), compiler.out.forward);
  OperationList::Arguments arguments = {{DNNL_ARG_SRC, compiler.source()},
                                        {DNNL_ARG_WEIGHTS, weights},
                                        {DNNL_ARG_DST, compiler.output()}};
  if (spec.bias) arguments.emplace(DNNL_ARG_BIAS, spec.bias);
  compiler.out.forward.Add(dnnl::deconvolution_forward(forward), std::move(arguments));
  if (compiler.is_training()) AddTransposedGradients(compiler, spec, forward);
}

}  // namespace millrace::trainer
