#include "trainer/backend/cuda/layer_compiler.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::trainer::cuda {
namespace {

// The kinds that this backend has.
struct CompileRow {
  LayerKind kind;
  absl::Status (*forward)(LayerCompiler& compiler);
  absl::Status (*backward)(LayerCompiler& compiler);
};
constexpr CompileRow kRows[] = {
    {LayerKind::kConvolution, ProductForward, ProductBackward},
    {LayerKind::kTransposedConvolution, ProductForward, ProductBackward},
    {LayerKind::kMaxPool, PoolForward, PoolBackward},
    {LayerKind::kAveragePool, PoolForward, PoolBackward},
    {LayerKind::kGlobalAveragePool, PoolForward, PoolBackward},
    {LayerKind::kFullyConnected, ProductForward, ProductBackward},
    {LayerKind::kBatchNorm, NormForward, NormBackward},
    {LayerKind::kAdd, AddForward, AddBackward},
    {LayerKind::kMultiply, MultiplyForward, MultiplyBackward},
    {LayerKind::kConcat, ConcatForward, ConcatBackward},
    {LayerKind::kReshape, ReshapeForward, ReshapeBackward},
    {LayerKind::kDropout, DropoutForward, DropoutBackward},
    {LayerKind::kRelu, ActivationForward, ActivationBackward},
    {LayerKind::kRelu6, ActivationForward, ActivationBackward},
    {LayerKind::kLeakyRelu, ActivationForward, ActivationBackward},
    {LayerKind::kSigmoid, ActivationForward, ActivationBackward},
    {LayerKind::kTanh, ActivationForward, ActivationBackward},
    {LayerKind::kSilu, ActivationForward, ActivationBackward},
};

absl::StatusOr<const CompileRow*> RowOf(const Layer& layer) {
  for (const CompileRow& row : kRows) {
    if (row.kind == layer.kind) return &row;
  }
  return absl::UnimplementedError(
      absl::StrCat("layer '", layer.name, "': a device has no ", KindName(layer.kind)));
}

absl::Status CompileForward(NetworkParts& parts) {
  for (size_t i = 0; i < parts.compiled.model.layers.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const CompileRow* const row, RowOf(parts.compiled.model.layers[i]));
    LayerCompiler compiler(parts, i);
    MILLRACE_RETURN_IF_ERROR(row->forward(compiler));
  }
  return absl::OkStatus();
}

// Layers whose gradients nothing needs have no backward pass, but those with parameters do.
absl::Status CompileBackward(NetworkParts& parts) {
  CompileLossGradients(parts);
  for (size_t i = parts.compiled.model.layers.size(); i-- > 0;) {
    const Layer& layer = parts.compiled.model.layers[i];
    if (!parts.values.gradient(layer.output)) continue;
    MILLRACE_ASSIGN_OR_RETURN(const CompileRow* const row, RowOf(layer));
    LayerCompiler compiler(parts, i);
    MILLRACE_RETURN_IF_ERROR(row->backward(compiler));
  }
  return absl::OkStatus();
}

}  // namespace

Target LayerCompiler::GradientOf(int value) {
  const Tensor& gradient = values().gradient(value);
  if (!gradient) return {};
  const bool accumulates = parts_.is_written[value];
  parts_.is_written[value] = true;
  return {gradient, accumulates};
}

Draft LayerCompiler::Named(const std::string& what) const {
  Draft draft;
  draft.name = absl::StrCat(layer_.name, ": ", what);
  return draft;
}

Draft LayerCompiler::Completing(int value, const std::string& what) const {
  Draft draft = Named(what);
  draft.value = value;
  return draft;
}

Draft LayerCompiler::ForParameters(const std::string& what) const {
  Draft draft = Named(what);
  draft.when = When::kParameters;
  return draft;
}

absl::StatusOr<std::shared_ptr<const Product>> LayerCompiler::TryProduct(const ProductSpec& spec) {
  absl::StatusOr<std::shared_ptr<const Product>> product = parts_.products.Make(spec);
  if (product.ok()) return product;
  if (absl::IsUnimplemented(product.status())) return std::shared_ptr<const Product>();
  return Annotate(product.status());
}

absl::StatusOr<std::shared_ptr<const Product>> LayerCompiler::MakeProduct(const ProductSpec& spec) {
  absl::StatusOr<std::shared_ptr<const Product>> product = parts_.products.Make(spec);
  if (product.ok()) return product;
  return Annotate(product.status());
}

absl::Status LayerCompiler::Annotate(const absl::Status& status) const {
  return {status.code(), absl::StrCat("layer '", layer_.name, "': ", status.message())};
}

Tensor LayerCompiler::NewTensor(const std::string& what, int64_t count, DType type) {
  const std::string name = absl::StrCat(what, " of ", layer_.name);
  return {parts_.buffers.Add(name, static_cast<size_t>(count) * SizeOf(type)), type};
}

absl::Status CompileProgram(NetworkParts& parts) {
  parts.program.Begin(ProgramBuilder::Phase::kInputs);
  CompileInputs(parts);
  parts.program.Begin(ProgramBuilder::Phase::kForward);
  MILLRACE_RETURN_IF_ERROR(CompileForward(parts));
  parts.program.Begin(ProgramBuilder::Phase::kLosses);
  CompileLosses(parts);
  parts.program.Begin(ProgramBuilder::Phase::kBackward);
  const int64_t backward = parts.program.now();
  if (IsTraining(parts.compiled.use)) MILLRACE_RETURN_IF_ERROR(CompileBackward(parts));
  if (parts.compiled.use == NetworkUse::kInputGradients) parts.buffers.KeepWhatCrosses(backward);
  // The host reads them when it is asked for them.
  for (const Loss& loss : parts.compiled.model.losses) {
    parts.buffers.UseAtTheEnd(parts.values.data(loss.input));
  }
  for (const ModelInput& input : parts.compiled.model.inputs) {
    parts.buffers.UseAtTheEnd(parts.values.gradient(input.value));
  }
  return absl::OkStatus();
}

}  // namespace millrace::trainer::cuda
