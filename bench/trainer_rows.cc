// bench_trainer_rows NETWORK ROWS THREADS STEPS PRECISION: training steps of a network that
// WriteModel knows, on one batch of drawn values: forward, backward, and SGD with momentum. Beside
// them the convolutions and products of the network alone, each in the layouts that the library
// likes best, and the update alone. Times are medians, by the clock and by the processor time of
// the process. Prints one JSON object.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dnnl.hpp>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/trainer_step.h"
#include "trainer/backend/backend.h"
#include "trainer/model/model.h"

extern "C" void omp_set_num_threads(int threads);

namespace millrace::bench {
namespace {

using dnnl::memory;
using trainer::Layer;
using trainer::LayerKind;
using trainer::Model;
using Tag = memory::format_tag;

// --- Primitives alone ---

class Primitives {
 public:
  Primitives(const Model& model, int64_t rows, memory::data_type type)
      : model_(model),
        rows_(rows),
        type_(type),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_) {}

  // Milliseconds of the layers of `kind`: forward, and backward by weights and by data.
  Times Sum(LayerKind kind, int repeats, int threads) {
    Times sum;
    for (const Layer& layer : model_.layers) {
      if (layer.kind != kind) continue;
      const std::string key = KeyOf(layer);
      if (!known_.contains(key)) known_[key] = MeasureLayer(layer, repeats, threads);
      sum.wall += known_[key].wall;
      sum.cpu += known_[key].cpu;
    }
    return sum;
  }

 private:
  using Arguments = std::unordered_map<int, memory>;

  memory::desc Any(memory::dims dims) const { return {std::move(dims), type_, Tag::any}; }
  memory::desc ImageOf(int value) const {
    const Shape& shape = model_.values[value].shape;
    return Any({rows_, shape[2], shape[0], shape[1]});
  }
  bool HasDataGradient(const Layer& layer) const {
    return std::ranges::none_of(model_.inputs, [&](const trainer::ModelInput& input) {
      return input.value == layer.inputs[0];
    });
  }
  std::string KeyOf(const Layer& layer) const {
    const Shape& weights = model_.parameters[layer.weights].shape;
    return absl::StrFormat("%s %s %s%s %d", weights.ToString(),
                           model_.values[layer.inputs[0]].shape.ToString(),
                           model_.values[layer.output].shape.ToString(), layer.AttributesText(),
                           HasDataGradient(layer));
  }
  memory Make(const memory::desc& desc) {
    memory made(desc, engine_);
    std::fill_n(static_cast<uint8_t*>(made.get_data_handle()), desc.get_size(), 0);
    return made;
  }
  template <typename Primitive>
  Times Time(const Primitive& primitive, const Arguments& arguments, int repeats, int threads) {
    return Measure(repeats, threads, [&] {
      primitive.execute(stream_, arguments);
      stream_.wait();
    });
  }
  Times MeasureLayer(const Layer& layer, int repeats, int threads);
  Times MeasureConvolution(const Layer& layer, int repeats, int threads);
  Times MeasureProduct(const Layer& layer, int repeats, int threads);
  template <typename Library, typename Forward, typename Data, typename Gradient>
  Times MeasureThree(bool has_data, const Forward& forward, const Data& data,
                     const Gradient& gradient, int repeats, int threads);

  const Model& model_;
  const int64_t rows_;
  const memory::data_type type_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::map<std::string, Times> known_;
};

struct ConvolutionLibrary {
  using Forward = dnnl::convolution_forward;
  using Data = dnnl::convolution_backward_data;
  using Gradient = dnnl::convolution_backward_weights;
};
struct ProductLibrary {
  using Forward = dnnl::inner_product_forward;
  using Data = dnnl::inner_product_backward_data;
  using Gradient = dnnl::inner_product_backward_weights;
};

template <typename Library, typename Forward, typename Data, typename Gradient>
Times Primitives::MeasureThree(bool has_data, const Forward& forward, const Data& data,
                               const Gradient& gradient, int repeats, int threads) {
  const typename Library::Forward::primitive_desc f(forward, engine_);
  Times sum = Time(typename Library::Forward(f),
                   {{DNNL_ARG_SRC, Make(f.src_desc())},
                    {DNNL_ARG_WEIGHTS, Make(f.weights_desc())},
                    {DNNL_ARG_DST, Make(f.dst_desc())}},
                   repeats, threads);
  const auto add = [&](const Times& times) {
    sum.wall += times.wall;
    sum.cpu += times.cpu;
  };
  const typename Library::Gradient::primitive_desc g(gradient, engine_, f);
  add(Time(typename Library::Gradient(g),
           {{DNNL_ARG_SRC, Make(g.src_desc())},
            {DNNL_ARG_DIFF_DST, Make(g.diff_dst_desc())},
            {DNNL_ARG_DIFF_WEIGHTS, Make(g.diff_weights_desc())}},
           repeats, threads));
  if (!has_data) return sum;
  const typename Library::Data::primitive_desc d(data, engine_, f);
  add(Time(typename Library::Data(d),
           {{DNNL_ARG_DIFF_SRC, Make(d.diff_src_desc())},
            {DNNL_ARG_WEIGHTS, Make(d.weights_desc())},
            {DNNL_ARG_DIFF_DST, Make(d.diff_dst_desc())}},
           repeats, threads));
  return sum;
}

Times Primitives::MeasureLayer(const Layer& layer, int repeats, int threads) {
  return layer.kind == LayerKind::kConvolution ? MeasureConvolution(layer, repeats, threads)
                                               : MeasureProduct(layer, repeats, threads);
}

// In bfloat16 the library's quick code takes images by pixels only.
Times Primitives::MeasureConvolution(const Layer& layer, int repeats, int threads) {
  const bool by_pixels = type_ == memory::data_type::bf16;
  const auto image = [&](int value) {
    const memory::desc any = ImageOf(value);
    return by_pixels ? memory::desc(any.dims(), type_, Tag::nhwc) : any;
  };
  const trainer::Window& window = layer.window();
  const Shape& shape = model_.parameters[layer.weights].shape;
  const memory::desc weights = Any({shape[0], shape[1], shape[2], shape[3]});
  const memory::dims stride = {window.stride[0], window.stride[1]};
  const memory::dims begin = {window.padding[0], window.padding[2]};
  const memory::dims end = {window.padding[1], window.padding[3]};
  const memory::desc source = image(layer.inputs[0]);
  const memory::desc output = image(layer.output);
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  using Library = ConvolutionLibrary;
  return MeasureThree<Library>(
      HasDataGradient(layer),
      Library::Forward::desc(dnnl::prop_kind::forward_training, kDirect, source, weights, output,
                             stride, begin, end),
      Library::Data::desc(kDirect, source, weights, output, stride, begin, end),
      Library::Gradient::desc(kDirect, source, weights, output, stride, begin, end), repeats,
      threads);
}

Times Primitives::MeasureProduct(const Layer& layer, int repeats, int threads) {
  const Shape& shape = model_.parameters[layer.weights].shape;
  const memory::desc source = Any({rows_, shape[1]});
  const memory::desc weights = Any({shape[0], shape[1]});
  const memory::desc output = Any({rows_, shape[0]});
  using Library = ProductLibrary;
  return MeasureThree<Library>(
      HasDataGradient(layer),
      Library::Forward::desc(dnnl::prop_kind::forward_training, source, weights, output),
      Library::Data::desc(source, weights, output),
      Library::Gradient::desc(source, weights, output), repeats, threads);
}

// --- Whole steps ---

struct Settings {
  std::string network;
  int64_t rows = 0;
  int threads = 0;
  int steps = 0;
};

std::string Text(const char* name, const Times& times) {
  return absl::StrFormat("\"%s_ms\": %.2f, \"%s_cpu_ms\": %.2f", name, times.wall, name, times.cpu);
}

void Run(const Settings& settings, memory::data_type type) {
  const Model model = ModelOf(settings.network);
  const int threads = settings.threads;
  omp_set_num_threads(threads);
  Primitives primitives(model, settings.rows, type);
  const Times convolutions = primitives.Sum(LayerKind::kConvolution, settings.steps, threads);
  const Times products = primitives.Sum(LayerKind::kFullyConnected, settings.steps, threads);
  Training training(model);
  trainer::BackendOptions options(threads);
  if (type == memory::data_type::bf16) options.precision = trainer::Precision::kBFloat16;
  const auto backend = Value(
      trainer::MakeOneDnnBackend(model, training.weights, training.buffers,
                                 {training.gradients.begin(), training.gradients.end()}, options));
  const Batch batch(model, settings.rows);
  trainer::Network* const network =
      Value(backend->Compile(settings.rows, trainer::NetworkUse::kTraining));
  const Times step = Measure(settings.steps, threads, [&] { RunStep(*network, batch, training); });
  const Times update = Measure(settings.steps, threads, [&] { training.Update(); });
  const double rows = static_cast<double>(settings.rows);
  absl::PrintF(
      "{\"images_per_second\": %.2f, \"images_per_cpu_second\": %.2f, %s, %s, %s, %s, "
      "\"parameters\": %d, \"backend\": \"%s\"}\n",
      1e3 * rows / step.wall, 1e3 * rows / step.cpu, Text("step", step),
      Text("convolutions", convolutions), Text("products", products), Text("update", update),
      model.num_parameters(), backend->Describe());
}

int Main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: bench_trainer_rows NETWORK ROWS THREADS STEPS PRECISION\n");
    return 2;
  }
  const Settings settings = {argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4])};
  const bool is_half = std::string(argv[5]) == "bfloat16";
  Run(settings, is_half ? memory::data_type::bf16 : memory::data_type::f32);
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) { return millrace::bench::Main(argc, argv); }
