#include "trainer/backend/onednn/layer_compiler.h"

namespace millrace::trainer {

using dnnl::memory;
using Tag = memory::format_tag;

namespace {

// The kinds that this backend has.
struct CompileRow {
  LayerKind kind;
  void (*compile)(LayerCompiler& compiler);
};
constexpr CompileRow kRows[] = {
    {LayerKind::kConvolution, CompileConvolution},
    {LayerKind::kTransposedConvolution, CompileTransposedConvolution},
    {LayerKind::kMaxPool, CompileMaxPool},
    {LayerKind::kAveragePool, CompilePool},
    {LayerKind::kGlobalAveragePool, CompileGlobalAveragePool},
    {LayerKind::kFullyConnected, CompileFullyConnected},
    {LayerKind::kBatchNorm, CompileBatchNorm},
    {LayerKind::kAdd, CompileAdd},
    {LayerKind::kMultiply, CompileMultiply},
    {LayerKind::kConcat, CompileConcat},
    {LayerKind::kReshape, CompileReshape},
    {LayerKind::kDropout, CompileDropout},
    {LayerKind::kRelu, CompileActivation},
    {LayerKind::kRelu6, CompileActivation},
    {LayerKind::kLeakyRelu, CompileActivation},
    {LayerKind::kSigmoid, CompileActivation},
    {LayerKind::kTanh, CompileActivation},
    {LayerKind::kSilu, CompileActivation},
};

// oneDNN takes no const pointers; primitives only write to the arguments that are their results.
memory Wrap(const float* data, const memory::dims& dims, const dnnl::engine& engine) {
  constexpr Tag kPlain[] = {Tag::undef, Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde};
  return {{dims, kF32, kPlain[dims.size()]}, engine, const_cast<float*>(data)};
}

}  // namespace

memory::desc AnyLayout(const memory::desc& desc, memory::data_type type) {
  return {desc.dims(), type, Tag::any};
}

memory::desc AnyLayout(const memory::desc& desc) { return AnyLayout(desc, desc.data_type()); }

memory::desc BiasDesc(const memory& bias) { return bias ? bias.get_desc() : memory::desc(); }

void CompileLayer(LayerCompiler& compiler) {
  for (const CompileRow& row : kRows) {
    if (row.kind == compiler.layer().kind) row.compile(compiler);
  }
  compiler.AddUpGradients();
}

LayerCompiler::LayerCompiler(NetworkParts& parts, size_t layer, CompiledLayer& out_in)
    : out(out_in), parts_(parts), index_(layer), layer_(parts.tensors.model.layers[layer]) {}

const memory& LayerCompiler::source(size_t slot) const {
  return parts_.values.data(layer_.inputs[slot]);
}

const memory& LayerCompiler::output() const { return parts_.values.data(layer_.output); }

const memory& LayerCompiler::output_gradient() const {
  return parts_.values.gradient(ResultOfNorm());
}

memory LayerCompiler::source_gradient(size_t slot) { return GradientOf(index_, slot); }

int LayerCompiler::ResultOfNorm() const {
  const FusedNorm& norm = fused();
  const int last = norm.relu >= 0 ? norm.relu : norm.add;
  return last >= 0 ? model().layers[last].output : layer_.output;
}

memory LayerCompiler::addend() const {
  return fused().add >= 0 ? parts_.values.data(fused().addend) : memory();
}

const memory& LayerCompiler::more_gradient() const {
  return parts_.values.more_gradient(ResultOfNorm());
}

memory LayerCompiler::addend_gradient() {
  const int value = fused().addend;
  if (fused().add < 0) return {};
  const memory& more = parts_.values.more_gradient(value);
  if (more && more.get() == output_gradient().get()) return {};
  const memory& gradient = parts_.values.gradient(value);
  if (!gradient || gradient.get() == output_gradient().get()) return {};
  const std::vector<int>& inputs = model().layers[fused().add].inputs;
  return GradientOf(fused().add, inputs[0] == value ? 0 : 1);
}

memory LayerCompiler::GradientOf(size_t i, size_t slot) {
  const int value = model().layers[i].inputs[slot];
  const memory& gradient = parts_.values.gradient(value);
  if (!gradient || parts_.values.WritesFirst(i, slot)) return gradient;
  if (parts_.values.more_gradient(value)) return parts_.values.more_gradient(value);
  terms_.emplace_back(parts_.values.term(i, slot), gradient);
  return terms_.back().first;
}

memory LayerCompiler::Flattened(const memory& memory) {
  const dnnl::memory::desc desc = memory.get_desc();
  int64_t values = 1;
  for (size_t i = 1; i < desc.dims().size(); ++i) values *= desc.dims()[i];
  return View(memory, {{desc.dims()[0], values}, desc.data_type(), Tag::nc});
}

memory LayerCompiler::Parameter(int parameter, const memory::dims& dims) const {
  return Wrap(Weights(parameter).data(), dims, engine());
}

memory LayerCompiler::ParameterGradient(int parameter, const memory::dims& dims) const {
  return Wrap(Gradient(parameter).data(), dims, engine());
}

// oneDNN takes no const pointers; primitives only write to the arguments that are their results.
memory LayerCompiler::Parameter(int parameter, const memory::desc& desc) const {
  return {desc, engine(), const_cast<float*>(Weights(parameter).data())};
}

memory LayerCompiler::ParameterGradient(int parameter, const memory::desc& desc) const {
  return {desc, engine(), Gradient(parameter).data()};
}

memory LayerCompiler::Reordered(const memory& plain, const memory::desc& wanted,
                                OperationList& list) const {
  if (plain.get_desc() == wanted) return plain;
  memory copy = NewMemory(wanted);
  list.Add(dnnl::reorder(plain, copy), {{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, copy}});
  return copy;
}

memory LayerCompiler::Target(const memory& plain, const memory::desc& wanted) const {
  return plain.get_desc() == wanted ? plain : NewMemory(wanted);
}

void LayerCompiler::AddWriteBack(const memory& made, const memory& plain, OperationList& list) {
  if (made.get() == plain.get()) return;
  list.Add(dnnl::reorder(made, plain), {{DNNL_ARG_FROM, made}, {DNNL_ARG_TO, plain}});
}

void LayerCompiler::AddUpGradients() {
  for (const auto& [term, sum] : terms_) {
    const memory::desc desc = sum.get_desc();
    const dnnl::binary::primitive_desc add({dnnl::algorithm::binary_add, desc, desc, desc},
                                           engine());
    out.data.Add(dnnl::binary(add),
                 {{DNNL_ARG_SRC_0, sum}, {DNNL_ARG_SRC_1, term}, {DNNL_ARG_DST, sum}});
  }
}

}  // namespace millrace::trainer
