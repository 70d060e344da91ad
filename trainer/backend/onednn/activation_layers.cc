#include "trainer/backend/onednn/layer_compiler.h"

namespace millrace::trainer {

using dnnl::algorithm;
using dnnl::memory;

namespace {

// The function of a kind of layer.
struct Function {
  algorithm name;
  float alpha = 0;
  float beta = 0;
  bool by_result = false;  // true if its derivative is computed from the result, not the input
};

Function FunctionOf(const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::kRelu6:
      return {algorithm::eltwise_clip, 0, 6};
    case LayerKind::kLeakyRelu:
      return {algorithm::eltwise_relu,
              static_cast<float>(std::get<Slope>(layer.attributes).negative)};
    case LayerKind::kSigmoid:
      return {algorithm::eltwise_logistic_use_dst_for_bwd, 0, 0, true};
    case LayerKind::kTanh:
      return {algorithm::eltwise_tanh_use_dst_for_bwd, 0, 0, true};
    case LayerKind::kSilu:
      return {algorithm::eltwise_swish, 1};
    default:  // so that a ReLU works in place
      return {algorithm::eltwise_relu_use_dst_for_bwd, 0, 0, true};
  }
}

}  // namespace

dnnl::primitive_attr FusedRelu(const LayerCompiler& compiler) {
  dnnl::primitive_attr attributes;
  if (compiler.has_fused_relu()) {
    dnnl::post_ops post;
    post.append_eltwise(1.0f, algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(post);
  }
  return attributes;
}

void CompileActivation(LayerCompiler& compiler) {
  const memory::desc desc = compiler.output().get_desc();
  const Function function = FunctionOf(compiler.layer());
  const dnnl::eltwise_forward::primitive_desc forward(
      {compiler.forward_kind(), function.name, desc, function.alpha, function.beta},
      compiler.engine());
  if (!compiler.is_fused()) {
    compiler.out.forward.Add(dnnl::eltwise_forward(forward), {{DNNL_ARG_SRC, compiler.source()},
                                                              {DNNL_ARG_DST, compiler.output()}});
  }
  if (!compiler.is_training() || compiler.is_done_backward()) return;
  const memory source_gradient = compiler.source_gradient();
  if (!source_gradient) return;
  const dnnl::eltwise_backward::primitive_desc data(
      {function.name, desc, desc, function.alpha, function.beta}, compiler.engine(), forward);
  OperationList::Arguments arguments = {{DNNL_ARG_DIFF_DST, compiler.output_gradient()},
                                        {DNNL_ARG_DIFF_SRC, source_gradient}};
  arguments.emplace(function.by_result ? DNNL_ARG_DST : DNNL_ARG_SRC,
                    function.by_result ? compiler.output() : compiler.source());
  compiler.out.data.Add(dnnl::eltwise_backward(data), std::move(arguments));
}

}  // namespace millrace::trainer
