#include "trainer/backend/onednn/layer_compiler.h"

namespace millrace::trainer {

using dnnl::memory;

namespace {

// `weights` are the forward pass's, in their plain layout.
void AddProductGradients(LayerCompiler& compiler, const memory& flat, const memory& weights,
                         const dnnl::inner_product_forward::primitive_desc& forward) {
  const Layer& layer = compiler.layer();
  const memory::desc source = flat.get_desc();
  const memory::desc output = compiler.output_gradient().get_desc();
  memory bias;  // empty: the layer has none
  if (layer.bias >= 0) bias = compiler.ParameterGradient(layer.bias, {output.dims()[1]});
  const memory made = compiler.ParameterGradient(layer.weights, weights.get_desc().dims());
  const dnnl::inner_product_backward_weights::primitive_desc gradient(
      {source, made.get_desc(), BiasDesc(bias), output}, compiler.engine(), forward);
  OperationList::Arguments arguments = {{DNNL_ARG_SRC, flat},
                                        {DNNL_ARG_DIFF_DST, compiler.output_gradient()},
                                        {DNNL_ARG_DIFF_WEIGHTS, made}};
  if (bias) arguments.emplace(DNNL_ARG_DIFF_BIAS, bias);
  compiler.out.gradients.Add(dnnl::inner_product_backward_weights(gradient), std::move(arguments));
  const memory source_gradient = compiler.source_gradient();
  if (!source_gradient) return;

  const dnnl::inner_product_backward_data::primitive_desc data({source, weights.get_desc(), output},
                                                               compiler.engine(), forward);
  compiler.out.data.Add(dnnl::inner_product_backward_data(data),
                        {{DNNL_ARG_DIFF_DST, compiler.output_gradient()},
                         {DNNL_ARG_WEIGHTS, weights},
                         {DNNL_ARG_DIFF_SRC, compiler.Flattened(source_gradient)}});
}

}  // namespace

// Weights stay in their plain layout: a product of few rows takes less time than a reorder.
void CompileFullyConnected(LayerCompiler& compiler) {
  const Layer& layer = compiler.layer();
  const memory flat = compiler.Flattened(compiler.source());
  const memory::desc output = compiler.output().get_desc();
  const int64_t outputs = output.dims()[1];
  const memory plain = compiler.Parameter(layer.weights, {outputs, flat.get_desc().dims()[1]});
  memory bias;  // empty: the layer has none
  if (layer.bias >= 0) bias = compiler.Parameter(layer.bias, {outputs});
  const memory weights =
      compiler.Reordered(plain, {plain.get_desc().dims(), compiler.type(), memory::format_tag::ab},
                         compiler.out.forward);
  const dnnl::inner_product_forward::primitive_desc forward(
      {compiler.forward_kind(), flat.get_desc(), weights.get_desc(), BiasDesc(bias), output},
      FusedRelu(compiler), compiler.engine());
  OperationList::Arguments arguments = {
      {DNNL_ARG_SRC, flat}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, compiler.output()}};
  if (bias) arguments.emplace(DNNL_ARG_BIAS, bias);
  compiler.out.forward.Add(dnnl::inner_product_forward(forward), std::move(arguments));
  if (compiler.is_training()) AddProductGradients(compiler, flat, weights, forward);
}

}  // namespace millrace::trainer
