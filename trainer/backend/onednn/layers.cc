#include "trainer/backend/onednn/layers.h"

namespace millrace::trainer {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Tag = memory::format_tag;

namespace {

constexpr auto kF32 = memory::data_type::f32;
constexpr algorithm kRelu = algorithm::eltwise_relu_use_dst_for_bwd;  // so that it works in place

memory::desc ActivationDesc(int64_t rows, const Shape& shape) {
  if (shape.rank() == 1) return {{rows, shape[0]}, kF32, Tag::nc};
  return {{rows, shape[2], shape[0], shape[1]}, kF32, Tag::nhwc};
}

memory::dims Square(int64_t extent) { return {extent, extent}; }

memory::desc AnyLayout(const memory::desc& desc) { return {desc.dims(), kF32, Tag::any}; }

}  // namespace

struct CompiledNet::Tensors {
  memory source;
  memory output;
  memory output_gradient;  // these two are empty where nothing runs backward
  memory source_gradient;
  memory weights;  // plain
  memory bias;
  memory weights_gradient;  // plain: the caller's memory
  memory bias_gradient;
  bool fused = false;  // a ReLU that the layer before has applied
};

CompiledNet::CompiledNet(const Model& model, const TensorSet& weights,
                         std::span<const std::span<float>> gradients, int64_t rows,
                         const dnnl::engine& engine)
    : model_(model),
      weights_(weights),
      parameter_gradients_(gradients),
      training_(!gradients.empty()),
      rows_(rows),
      engine_(engine),
      input_(ActivationDesc(rows, model.input_shape), engine, nullptr),
      input_views_{input_},
      layers_(model.layers.size()) {
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    const memory::desc desc = ActivationDesc(rows, layer.output);
    const bool in_place = layer.kind == LayerKind::kRelu && i > 0;
    activations_.push_back(in_place ? activations_.back() : NewMemory(desc));
    if (!training_) continue;
    gradients_.push_back(in_place ? gradients_.back() : NewMemory(desc));
  }
  for (size_t i = 0; i < model.layers.size(); ++i) Compile(i);
}

std::span<float> CompiledNet::Values(const memory& memory) {
  return {static_cast<float*>(memory.get_data_handle()),
          memory.get_desc().get_size() / sizeof(float)};
}

memory CompiledNet::NewMemory(const memory::desc& desc) const { return {desc, engine_}; }

// oneDNN takes no const pointers; primitives only write to the arguments that are their results.
memory CompiledNet::WrapWeights(const Parameter& parameter, const float* data) const {
  const auto extents = parameter.shape.extents();
  const memory::dims dims(extents.begin(), extents.end());
  const Tag tag = dims.size() == 4 ? Tag::oihw : dims.size() == 2 ? Tag::oi : Tag::a;
  return {{dims, kF32, tag}, engine_, const_cast<float*>(data)};
}

memory CompiledNet::Flatten(const memory& image) {
  const int64_t values = static_cast<int64_t>(image.get_desc().get_size() / sizeof(float)) / rows_;
  memory flat({{rows_, values}, kF32, Tag::nc}, engine_, image.get_data_handle());
  if (image.get() == input_.get()) input_views_.push_back(flat);
  return flat;
}

memory CompiledNet::Reordered(const memory& plain, const memory::desc& wanted,
                              PrimitiveList& list) const {
  if (plain.get_desc() == wanted) return plain;
  memory copy = NewMemory(wanted);
  list.Add(dnnl::reorder(plain, copy), {{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, copy}});
  return copy;
}

memory CompiledNet::Target(const memory& plain, const memory::desc& wanted) const {
  return plain.get_desc() == wanted ? plain : NewMemory(wanted);
}

void CompiledNet::AddWriteBack(const memory& made, const memory& plain, PrimitiveList& list) {
  if (made.get() == plain.get()) return;
  list.Add(dnnl::reorder(made, plain), {{DNNL_ARG_FROM, made}, {DNNL_ARG_TO, plain}});
}

CompiledNet::Tensors CompiledNet::TensorsOf(size_t i) {
  const Layer& layer = model_.layers[i];
  Tensors tensors;
  tensors.source = i == 0 ? input_ : activations_[i - 1];
  tensors.output = activations_[i];
  if (training_) tensors.output_gradient = gradients_[i];
  if (training_ && i > 0) tensors.source_gradient = gradients_[i - 1];
  if (i > 0) {
    const LayerKind before = model_.layers[i - 1].kind;
    tensors.fused = layer.kind == LayerKind::kRelu &&
                    (before == LayerKind::kConvolution || before == LayerKind::kFullyConnected);
  }
  if (layer.weights < 0) return tensors;
  const Parameter& weights = model_.parameters[layer.weights];
  const Parameter& bias = model_.parameters[layer.bias];
  tensors.weights = WrapWeights(weights, weights_[layer.weights].data());
  tensors.bias = WrapWeights(bias, weights_[layer.bias].data());
  if (!training_) return tensors;
  tensors.weights_gradient = WrapWeights(weights, parameter_gradients_[layer.weights].data());
  tensors.bias_gradient = WrapWeights(bias, parameter_gradients_[layer.bias].data());
  return tensors;
}

void CompiledNet::Compile(size_t i) {
  const Layer& layer = model_.layers[i];
  switch (layer.kind) {
    case LayerKind::kConvolution:
      return CompileConvolution(layer, TensorsOf(i), layers_[i]);
    case LayerKind::kFullyConnected:
      return CompileFullyConnected(layer, TensorsOf(i), layers_[i]);
    case LayerKind::kMaxPool:
    case LayerKind::kAveragePool:
      return CompilePool(layer, TensorsOf(i), layers_[i]);
    case LayerKind::kRelu:
      return CompileRelu(TensorsOf(i), layers_[i]);
  }
}

dnnl::primitive_attr CompiledNet::FusedRelu(const Layer& layer) const {
  dnnl::primitive_attr attributes;
  const size_t next = &layer - model_.layers.data() + 1;
  if (next < model_.layers.size() && model_.layers[next].kind == LayerKind::kRelu) {
    dnnl::post_ops post;
    post.append_eltwise(1.0f, algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(post);
  }
  return attributes;
}

void CompiledNet::CompileConvolution(const Layer& layer, const Tensors& tensors,
                                     CompiledLayer& out) {
  const memory::dims stride = Square(layer.stride);
  const memory::dims padding = Square(layer.padding);
  const memory::desc source = tensors.source.get_desc();
  const memory::desc weights = AnyLayout(tensors.weights.get_desc());
  const memory::desc bias = tensors.bias.get_desc();
  const memory::desc output = tensors.output.get_desc();
  constexpr auto kDirect = algorithm::convolution_direct;

  const dnnl::convolution_forward::primitive_desc forward(
      {training_ ? prop_kind::forward_training : prop_kind::forward_inference, kDirect, source,
       weights, bias, output, stride, padding, padding},
      FusedRelu(layer), engine_);
  const memory forward_weights = Reordered(tensors.weights, forward.weights_desc(), out.forward);
  out.forward.Add(dnnl::convolution_forward(forward), {{DNNL_ARG_SRC, tensors.source},
                                                       {DNNL_ARG_WEIGHTS, forward_weights},
                                                       {DNNL_ARG_BIAS, tensors.bias},
                                                       {DNNL_ARG_DST, tensors.output}});
  if (!training_) return;

  const dnnl::convolution_backward_weights::primitive_desc gradient(
      {kDirect, source, weights, bias, output, stride, padding, padding}, engine_, forward);
  const memory made = Target(tensors.weights_gradient, gradient.diff_weights_desc());
  out.gradients.Add(dnnl::convolution_backward_weights(gradient),
                    {{DNNL_ARG_SRC, tensors.source},
                     {DNNL_ARG_DIFF_DST, tensors.output_gradient},
                     {DNNL_ARG_DIFF_WEIGHTS, made},
                     {DNNL_ARG_DIFF_BIAS, tensors.bias_gradient}});
  AddWriteBack(made, tensors.weights_gradient, out.gradients);
  if (!tensors.source_gradient) return;

  const dnnl::convolution_backward_data::primitive_desc data(
      {kDirect, source, weights, output, stride, padding, padding}, engine_, forward);
  const memory data_weights = Reordered(tensors.weights, data.weights_desc(), out.data);
  out.data.Add(dnnl::convolution_backward_data(data),
               {{DNNL_ARG_DIFF_DST, tensors.output_gradient},
                {DNNL_ARG_WEIGHTS, data_weights},
                {DNNL_ARG_DIFF_SRC, tensors.source_gradient}});
}

void CompiledNet::CompileFullyConnected(const Layer& layer, const Tensors& tensors,
                                        CompiledLayer& out) {
  const memory flat = Flatten(tensors.source);
  const memory::desc source = flat.get_desc();
  const memory::desc weights = AnyLayout(tensors.weights.get_desc());
  const memory::desc bias = tensors.bias.get_desc();
  const memory::desc output = tensors.output.get_desc();

  const dnnl::inner_product_forward::primitive_desc forward(
      {training_ ? prop_kind::forward_training : prop_kind::forward_inference, source, weights,
       bias, output},
      FusedRelu(layer), engine_);
  const memory forward_weights = Reordered(tensors.weights, forward.weights_desc(), out.forward);
  out.forward.Add(dnnl::inner_product_forward(forward), {{DNNL_ARG_SRC, flat},
                                                         {DNNL_ARG_WEIGHTS, forward_weights},
                                                         {DNNL_ARG_BIAS, tensors.bias},
                                                         {DNNL_ARG_DST, tensors.output}});
  if (!training_) return;

  const dnnl::inner_product_backward_weights::primitive_desc gradient(
      {source, weights, bias, output}, engine_, forward);
  const memory made = Target(tensors.weights_gradient, gradient.diff_weights_desc());
  out.gradients.Add(dnnl::inner_product_backward_weights(gradient),
                    {{DNNL_ARG_SRC, flat},
                     {DNNL_ARG_DIFF_DST, tensors.output_gradient},
                     {DNNL_ARG_DIFF_WEIGHTS, made},
                     {DNNL_ARG_DIFF_BIAS, tensors.bias_gradient}});
  AddWriteBack(made, tensors.weights_gradient, out.gradients);
  if (!tensors.source_gradient) return;

  const dnnl::inner_product_backward_data::primitive_desc data({source, weights, output}, engine_,
                                                               forward);
  const memory data_weights = Reordered(tensors.weights, data.weights_desc(), out.data);
  out.data.Add(dnnl::inner_product_backward_data(data),
               {{DNNL_ARG_DIFF_DST, tensors.output_gradient},
                {DNNL_ARG_WEIGHTS, data_weights},
                {DNNL_ARG_DIFF_SRC, Flatten(tensors.source_gradient)}});
}

void CompiledNet::CompilePool(const Layer& layer, const Tensors& tensors, CompiledLayer& out) {
  const algorithm kind = layer.kind == LayerKind::kMaxPool ? algorithm::pooling_max
                                                           : algorithm::pooling_avg_exclude_padding;
  const memory::dims stride = Square(layer.stride);
  const memory::dims kernel = Square(layer.kernel);
  const memory::dims padding = Square(layer.padding);
  const memory::desc source = tensors.source.get_desc();
  const memory::desc output = tensors.output.get_desc();

  const dnnl::pooling_forward::primitive_desc forward(
      {training_ ? prop_kind::forward_training : prop_kind::forward_inference, kind, source, output,
       stride, kernel, padding, padding},
      engine_);
  PrimitiveList::Arguments arguments = {{DNNL_ARG_SRC, tensors.source},
                                        {DNNL_ARG_DST, tensors.output}};
  memory workspace;  // where each maximum came from
  const bool has_workspace = forward.workspace_desc().get_size() > 0;
  if (has_workspace) {
    workspace = NewMemory(forward.workspace_desc());
    arguments.emplace(DNNL_ARG_WORKSPACE, workspace);
  }
  out.forward.Add(dnnl::pooling_forward(forward), std::move(arguments));
  if (!training_ || !tensors.source_gradient) return;

  const dnnl::pooling_backward::primitive_desc data(
      {kind, source, output, stride, kernel, padding, padding}, engine_, forward);
  arguments = {{DNNL_ARG_DIFF_DST, tensors.output_gradient},
               {DNNL_ARG_DIFF_SRC, tensors.source_gradient}};
  if (has_workspace) arguments.emplace(DNNL_ARG_WORKSPACE, workspace);
  out.data.Add(dnnl::pooling_backward(data), std::move(arguments));
}

void CompiledNet::CompileRelu(const Tensors& tensors, CompiledLayer& out) {
  const memory::desc desc = tensors.output.get_desc();
  const dnnl::eltwise_forward::primitive_desc forward(
      {training_ ? prop_kind::forward_training : prop_kind::forward_inference, kRelu, desc, 0.0f,
       0.0f},
      engine_);
  if (!tensors.fused) {
    out.forward.Add(dnnl::eltwise_forward(forward),
                    {{DNNL_ARG_SRC, tensors.source}, {DNNL_ARG_DST, tensors.output}});
  }
  if (!training_ || !tensors.source_gradient) return;
  const dnnl::eltwise_backward::primitive_desc data({kRelu, desc, desc, 0.0f, 0.0f}, engine_,
                                                    forward);
  out.data.Add(dnnl::eltwise_backward(data), {{DNNL_ARG_DST, tensors.output},
                                              {DNNL_ARG_DIFF_DST, tensors.output_gradient},
                                              {DNNL_ARG_DIFF_SRC, tensors.source_gradient}});
}

void CompiledNet::Forward(const float* images, dnnl::stream& stream) {
  for (memory& view : input_views_) view.set_data_handle(const_cast<float*>(images));
  for (const CompiledLayer& layer : layers_) layer.forward.Run(stream);
  stream.wait();
}

}  // namespace millrace::trainer
