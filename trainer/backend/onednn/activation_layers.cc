#include "trainer/backend/onednn/layer_compiler.h"

namespace millrace::trainer {

using dnnl::algorithm;
using dnnl::memory;

namespace {

constexpr algorithm kRelu = algorithm::eltwise_relu_use_dst_for_bwd;  // so that it works in place

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
  const dnnl::eltwise_forward::primitive_desc forward(
      {compiler.forward_kind(), kRelu, desc, 0.0f, 0.0f}, compiler.engine());
  if (!compiler.is_fused()) {
    compiler.out.forward.Add(dnnl::eltwise_forward(forward), {{DNNL_ARG_SRC, compiler.source()},
                                                              {DNNL_ARG_DST, compiler.output()}});
  }
  if (!compiler.is_training()) return;
  const memory source_gradient = compiler.source_gradient();
  if (!source_gradient) return;
  const dnnl::eltwise_backward::primitive_desc data({kRelu, desc, desc, 0.0f, 0.0f},
                                                    compiler.engine(), forward);
  compiler.out.data.Add(dnnl::eltwise_backward(data),
                        {{DNNL_ARG_DST, compiler.output()},
                         {DNNL_ARG_DIFF_DST, compiler.output_gradient()},
                         {DNNL_ARG_DIFF_SRC, source_gradient}});
}

}  // namespace millrace::trainer
