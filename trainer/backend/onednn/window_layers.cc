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
      : kernel(Dims(window.kernel)),
        stride(Dims(window.stride)),
        dilation({window.dilation[0] - 1, window.dilation[1] - 1}),
        begin({window.padding[0], window.padding[2]}),
        end({window.padding[1], window.padding[3]}) {}

  memory::dims kernel;
  memory::dims stride;
  memory::dims dilation;  // 0: neighbours meet neighbours
  memory::dims begin;     // padding at the top and the left
  memory::dims end;
};

struct ConvolutionTensors {
  memory weights;
  memory bias;  // empty: the layer has none
  memory::dims weights_dims;
  memory::dims bias_dims;
};

ConvolutionTensors TensorsOf(const LayerCompiler& compiler) {
  const Layer& layer = compiler.layer();
  const int64_t filters = compiler.output().get_desc().dims()[1];
  const int64_t channels = compiler.source().get_desc().dims()[1];
  const auto [height, width] = layer.window().kernel;
  const int64_t groups = layer.window().groups;
  ConvolutionTensors tensors;
  tensors.weights_dims = {filters, channels, height, width};
  if (groups > 1) {
    tensors.weights_dims = {groups, filters / groups, channels / groups, height, width};
  }
  tensors.bias_dims = {filters};
  tensors.weights = compiler.Parameter(layer.weights, tensors.weights_dims);
  if (layer.bias >= 0) tensors.bias = compiler.Parameter(layer.bias, tensors.bias_dims);
  return tensors;
}

// The library's gradients of bfloat16 weights that see one pixel take three times a product of
// matrices. It would sum no bias.
bool IsProductOfPixels(const LayerCompiler& compiler) {
  const Window& window = compiler.layer().window();
  const bool is_pixel = window.kernel == std::array<int64_t, 2>{1, 1} && window.groups == 1 &&
                        window.padding == std::array<int64_t, 4>{0, 0, 0, 0};
  return is_pixel && compiler.layer().bias < 0 && compiler.type() == kHalf;
}

// The pixels of the source that the windows see, one after another.
memory SeenPixels(LayerCompiler& compiler) {
  const Window& window = compiler.layer().window();
  const memory source = compiler.source();
  if (window.stride == std::array<int64_t, 2>{1, 1}) return source;
  const memory::dims whole = source.get_desc().dims();
  memory::dims seen = compiler.output().get_desc().dims();
  seen[1] = whole[1];
  const memory::dims strides = {whole[1] * whole[2] * whole[3], 1,
                                window.stride[0] * whole[3] * whole[1],
                                window.stride[1] * whole[1]};
  const memory every = compiler.View(source, {seen, compiler.type(), strides});
  const memory copy = compiler.NewMemory({seen, compiler.type(), memory::format_tag::nhwc});
  compiler.out.gradients.Add(dnnl::reorder(every, copy),
                             {{DNNL_ARG_FROM, every}, {DNNL_ARG_TO, copy}});
  return copy;
}

// [filters, channels] = gradient^T [filters, pixels] * source [pixels, channels].
void AddPixelGradients(LayerCompiler& compiler) {
  using Tag = memory::format_tag;
  const memory::dims output = compiler.output().get_desc().dims();
  const int64_t pixels = output[0] * output[2] * output[3];
  const int64_t channels = compiler.source().get_desc().dims()[1];
  const memory::desc by_filter({output[1], pixels}, compiler.type(), Tag::ba);
  const memory::desc by_pixel({pixels, channels}, compiler.type(), Tag::ab);
  const memory gradient = compiler.View(compiler.output_gradient(), by_filter);
  const memory source = compiler.View(SeenPixels(compiler), by_pixel);
  const memory made =
      compiler.ParameterGradient(compiler.layer().weights, memory::dims{output[1], channels});
  const dnnl::matmul::primitive_desc product({by_filter, by_pixel, made.get_desc()},
                                             compiler.engine());
  compiler.out.gradients.Add(
      dnnl::matmul(product),
      {{DNNL_ARG_SRC, gradient}, {DNNL_ARG_WEIGHTS, source}, {DNNL_ARG_DST, made}});
}

// Scratch memory for a primitive. oneDNN 2.6's code for AVX2 writes a few bytes behind what it asks
// for where the filters are no multiple of 8.
memory ScratchOf(LayerCompiler& compiler, const memory::desc& wanted, OperationList& list) {
  constexpr int64_t kRoomBehind = 4096;
  const auto bytes = static_cast<int64_t>(wanted.get_size()) + kRoomBehind;
  const memory room = compiler.NewMemory({{bytes}, memory::data_type::u8, memory::format_tag::a});
  list.Keep(room);
  return {wanted, compiler.engine(), room.get_data_handle()};
}

void AddWeightGradients(LayerCompiler& compiler, const ConvolutionTensors& tensors,
                        const dnnl::convolution_forward::primitive_desc& forward) {
  const Layer& layer = compiler.layer();
  const Sizes sizes(layer.window());
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::convolution_backward_weights::primitive_desc gradient(
      {kDirect, compiler.source().get_desc(), AnyLayout(tensors.weights.get_desc()),
       BiasDesc(tensors.bias), compiler.output().get_desc(), sizes.stride, sizes.dilation,
       sizes.begin, sizes.end},
      attributes, compiler.engine(), forward);
  const memory plain = compiler.ParameterGradient(layer.weights, tensors.weights_dims);
  const memory made = compiler.Target(plain, gradient.diff_weights_desc());
  OperationList::Arguments arguments = {{DNNL_ARG_SRC, compiler.source()},
                                        {DNNL_ARG_DIFF_DST, compiler.output_gradient()},
                                        {DNNL_ARG_DIFF_WEIGHTS, made}};
  const memory::desc scratch = gradient.scratchpad_desc();
  if (scratch.get_size() > 0) {
    arguments.emplace(DNNL_ARG_SCRATCHPAD, ScratchOf(compiler, scratch, compiler.out.gradients));
  }
  if (tensors.bias) {
    arguments.emplace(DNNL_ARG_DIFF_BIAS,
                      compiler.ParameterGradient(layer.bias, tensors.bias_dims));
  }
  compiler.out.gradients.Add(dnnl::convolution_backward_weights(gradient), std::move(arguments));
  LayerCompiler::AddWriteBack(made, plain, compiler.out.gradients);
}

void AddDataGradient(LayerCompiler& compiler, const ConvolutionTensors& tensors,
                     const dnnl::convolution_forward::primitive_desc& forward) {
  const memory source_gradient = compiler.source_gradient();
  if (!source_gradient) return;
  const Sizes sizes(compiler.layer().window());
  const dnnl::convolution_backward_data::primitive_desc data(
      {kDirect, compiler.source().get_desc(),
       AnyLayout(tensors.weights.get_desc(), compiler.type()), compiler.output().get_desc(),
       sizes.stride, sizes.dilation, sizes.begin, sizes.end},
      compiler.engine(), forward);
  const memory weights =
      compiler.Reordered(tensors.weights, data.weights_desc(), compiler.out.data);
  compiler.out.data.Add(dnnl::convolution_backward_data(data),
                        {{DNNL_ARG_DIFF_DST, compiler.output_gradient()},
                         {DNNL_ARG_WEIGHTS, weights},
                         {DNNL_ARG_DIFF_SRC, source_gradient}});
}

// A pool, by its algorithm and window, from `source` to `output`.
struct PoolSpec {
  algorithm kind;
  Sizes sizes;
  memory source;
  memory output;
  memory output_gradient;  // empty for evaluation
};

void AddPool(LayerCompiler& compiler, const PoolSpec& pool) {
  const memory::desc source = pool.source.get_desc();
  const memory::desc output = pool.output.get_desc();
  const Sizes& sizes = pool.sizes;
  const dnnl::pooling_forward::primitive_desc forward(
      {compiler.forward_kind(), pool.kind, source, output, sizes.stride, sizes.kernel, sizes.begin,
       sizes.end},
      compiler.engine());
  OperationList::Arguments arguments = {{DNNL_ARG_SRC, pool.source}, {DNNL_ARG_DST, pool.output}};
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
      {pool.kind, source, output, sizes.stride, sizes.kernel, sizes.begin, sizes.end},
      compiler.engine(), forward);
  arguments = {{DNNL_ARG_DIFF_DST, pool.output_gradient}, {DNNL_ARG_DIFF_SRC, source_gradient}};
  if (has_workspace) arguments.emplace(DNNL_ARG_WORKSPACE, workspace);
  compiler.out.data.Add(dnnl::pooling_backward(data), std::move(arguments));
}

}  // namespace

void CompileConvolution(LayerCompiler& compiler) {
  const Sizes sizes(compiler.layer().window());
  const ConvolutionTensors tensors = TensorsOf(compiler);
  const dnnl::convolution_forward::primitive_desc forward(
      {compiler.forward_kind(), kDirect, compiler.source().get_desc(),
       AnyLayout(tensors.weights.get_desc(), compiler.type()), BiasDesc(tensors.bias),
       compiler.output().get_desc(), sizes.stride, sizes.dilation, sizes.begin, sizes.end},
      FusedRelu(compiler), compiler.engine());
  const memory weights =
      compiler.Reordered(tensors.weights, forward.weights_desc(), compiler.out.forward);
  OperationList::Arguments arguments = {{DNNL_ARG_SRC, compiler.source()},
                                        {DNNL_ARG_WEIGHTS, weights},
                                        {DNNL_ARG_DST, compiler.output()}};
  if (tensors.bias) arguments.emplace(DNNL_ARG_BIAS, tensors.bias);
  compiler.out.forward.Add(dnnl::convolution_forward(forward), std::move(arguments));
  if (!compiler.is_training()) return;
  if (IsProductOfPixels(compiler)) {
    AddPixelGradients(compiler);
  } else {
    AddWeightGradients(compiler, tensors, forward);
  }
  AddDataGradient(compiler, tensors, forward);
}

void CompilePool(LayerCompiler& compiler) {
  const bool is_max = compiler.layer().kind == LayerKind::kMaxPool;
  AddPool(compiler, {is_max ? algorithm::pooling_max : algorithm::pooling_avg_exclude_padding,
                     Sizes(compiler.layer().window()), compiler.source(), compiler.output(),
                     compiler.is_training() ? compiler.output_gradient() : memory()});
}

// A pool whose window is the image. Its output is [rows, channels] in memory.
void CompileGlobalAveragePool(LayerCompiler& compiler) {
  const memory::dims source = compiler.source().get_desc().dims();
  const memory::desc pixel({source[0], source[1], 1, 1}, compiler.type(), memory::format_tag::nhwc);
  Window window;
  window.kernel = {source[2], source[3]};
  AddPool(compiler,
          {algorithm::pooling_avg_exclude_padding, Sizes(window), compiler.source(),
           compiler.View(compiler.output(), pixel),
           compiler.is_training() ? compiler.View(compiler.output_gradient(), pixel) : memory()});
}

}  // namespace millrace::trainer
