// Layers that make one value of several, and reshapes.

#include "trainer/backend/onednn/layer_compiler.h"

namespace millrace::trainer {

using dnnl::algorithm;
using dnnl::memory;

namespace {

void AddBinary(LayerCompiler& compiler, algorithm name, const memory& a, const memory& b,
               const memory& result, OperationList& list) {
  const memory::desc desc = result.get_desc();
  const dnnl::binary::primitive_desc binary({name, desc, desc, desc}, compiler.engine());
  list.Add(dnnl::binary(binary),
           {{DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, b}, {DNNL_ARG_DST, result}});
}

void AddCopy(LayerCompiler& compiler, const memory& from, const memory::desc& part,
             const memory& to, OperationList& list) {
  const dnnl::reorder::primitive_desc copy(compiler.engine(), part, compiler.engine(),
                                           to.get_desc());
  list.Add(dnnl::reorder(copy), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

}  // namespace

void CompileAdd(LayerCompiler& compiler) {
  if (compiler.is_fused()) return;
  const size_t inputs = compiler.layer().inputs.size();
  for (size_t i = 1; i < inputs; ++i) {
    AddBinary(compiler, algorithm::binary_add, i == 1 ? compiler.source(0) : compiler.output(),
              compiler.source(i), compiler.output(), compiler.out.forward);
  }
  if (!compiler.is_training()) return;
  for (size_t i = 0; i < inputs; ++i) {
    const memory gradient = compiler.source_gradient(i);
    if (!gradient || gradient.get() == compiler.output_gradient().get()) continue;
    AddCopy(compiler, compiler.output_gradient(), gradient.get_desc(), gradient, compiler.out.data);
  }
}

void CompileMultiply(LayerCompiler& compiler) {
  AddBinary(compiler, algorithm::binary_mul, compiler.source(0), compiler.source(1),
            compiler.output(), compiler.out.forward);
  if (!compiler.is_training()) return;
  for (size_t i = 0; i < 2; ++i) {
    const memory gradient = compiler.source_gradient(i);
    if (!gradient) continue;
    AddBinary(compiler, algorithm::binary_mul, compiler.output_gradient(), compiler.source(1 - i),
              gradient, compiler.out.data);
  }
}

// The last extent of a sample is dimension 1 to oneDNN, for which images are [rows, channels,
// height, width].
void CompileConcat(LayerCompiler& compiler) {
  const memory::desc whole = compiler.output().get_desc();
  memory::dims begin(whole.dims().size(), 0);
  for (size_t i = 0; i < compiler.layer().inputs.size(); ++i) {
    const memory& source = compiler.source(i);
    const memory::dims dims = source.get_desc().dims();
    const memory::desc part = whole.submemory_desc(dims, begin);
    const dnnl::reorder::primitive_desc copy(compiler.engine(), source.get_desc(),
                                             compiler.engine(), part);
    compiler.out.forward.Add(dnnl::reorder(copy),
                             {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, compiler.output()}});
    begin[1] += dims[1];
    if (!compiler.is_training()) continue;
    const memory gradient = compiler.source_gradient(i);
    if (gradient) {
      AddCopy(compiler, compiler.output_gradient(), part, gradient, compiler.out.data);
    }
  }
}

// The values are there already. So is the gradient, where nothing else reads the input.
void CompileReshape(LayerCompiler& compiler) {
  if (!compiler.is_training()) return;
  const memory gradient = compiler.source_gradient();
  if (!gradient) return;
  const memory made = compiler.View(compiler.output_gradient(), gradient.get_desc());
  if (made.get_data_handle() == gradient.get_data_handle()) return;
  AddCopy(compiler, made, gradient.get_desc(), gradient, compiler.out.data);
}

}  // namespace millrace::trainer
