#include "trainer/model/model.h"

#include <xxhash.h>

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/text_proto.h"
#include "trainer/model/model.pb.h"

namespace millrace::trainer {
namespace {

constexpr int64_t kMaxExtent = 1 << 20;
constexpr int64_t kMaxElements = int64_t{1} << 31;  // of one tensor; oneDNN counts in int

std::string_view KindName(LayerSpec::KindCase kind) {
  switch (kind) {
    case LayerSpec::kInputLayer:
      return "input";
    case LayerSpec::kConvolution:
      return "conv";
    case LayerSpec::kPool:
      return "pool";
    case LayerSpec::kRelu:
      return "relu";
    case LayerSpec::kFullyConnected:
      return "fc";
    case LayerSpec::kSoftmaxCrossEntropy:
      return "loss";
    case LayerSpec::KIND_NOT_SET:
      break;
  }
  return "layer";
}

absl::Status Bad(std::string_view text) { return absl::InvalidArgumentError(ToAbsl(text)); }

bool InRange(int64_t value, int64_t low, int64_t high) { return value >= low && value <= high; }

// Elements of a shape whose extents are each in range; saturates well above every limit.
int64_t BoundedElements(const Shape& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape.extents()) {
    elements *= extent;
    if (elements > kMaxElements) return kMaxElements + 1;
  }
  return elements;
}

// Builds a Model layer by layer. The wiring is by name, but since every layer has one input and
// there is one loss, the layers form a chain: a layer whose output is not read is refused.
class Builder {
 public:
  absl::StatusOr<Model> Build(const ModelSpec& spec);
  // The number of the layer that Build is working on; -1 before the first.
  int current() const { return current_; }

 private:
  absl::Status AddNamed(const LayerSpec& spec, const std::string& name, bool last);
  absl::Status AddInput(const InputLayer& spec);
  absl::Status AddConvolution(const Convolution& spec, Layer layer);
  absl::Status AddPool(const Pool& spec, Layer layer);
  absl::Status AddFullyConnected(const FullyConnected& spec, Layer layer);
  absl::Status SetLoss(const SoftmaxCrossEntropy& spec, const Shape& input);
  absl::Status Window(Layer& layer, int64_t channels);
  absl::Status CheckWiring(const LayerSpec& spec);
  absl::Status AddParameters(Layer& layer, const Shape& weights, int64_t fan_in, int64_t outputs);
  void Append(Layer layer);

  Model model_;
  int current_ = -1;
  std::string previous_;  // name of the layer before
  Shape shape_;           // the shape of its output
  std::set<std::string> names_;
};

absl::StatusOr<Model> Builder::Build(const ModelSpec& spec) {
  model_.name = spec.name();
  if (spec.layer_size() < 2) return Bad("a model needs an input layer and a loss");
  std::map<int, int> count;
  for (int i = 0; i < spec.layer_size(); ++i) {
    const LayerSpec& layer = spec.layer(i);
    current_ = i;
    const int number = ++count[layer.kind_case()];
    std::string name = layer.name().empty()
                           ? absl::StrCat(ToAbsl(KindName(layer.kind_case())), number)
                           : layer.name();
    if (!names_.insert(name).second) {
      return Bad(absl::StrCat("two layers are called '", name, "'"));
    }
    MILLRACE_RETURN_IF_ERROR(Annotate(AddNamed(layer, name, i + 1 == spec.layer_size()),
                                      absl::StrCat("layer '", name, "'")));
    previous_ = std::move(name);
  }
  return std::move(model_);
}

absl::Status Builder::CheckWiring(const LayerSpec& spec) {
  if (spec.input().empty() || spec.input() == previous_) return absl::OkStatus();
  if (!names_.contains(spec.input())) {
    return Bad(absl::StrCat("its input '", spec.input(), "' is no layer before it"));
  }
  return Bad(absl::StrCat("it reads '", spec.input(), "', so nothing would read '", previous_,
                          "'; layers with two readers are not supported"));
}

absl::Status Builder::AddNamed(const LayerSpec& spec, const std::string& name, bool last) {
  const bool first = names_.size() == 1;
  if (first != (spec.kind_case() == LayerSpec::kInputLayer)) {
    return Bad(first ? "the first layer must be an input_layer"
                     : "only the first layer may be an input_layer");
  }
  if (last != (spec.kind_case() == LayerSpec::kSoftmaxCrossEntropy)) {
    return Bad(last ? "the last layer must be the loss, softmax_cross_entropy"
                    : "the loss must be the last layer");
  }
  if (first) return AddInput(spec.input_layer());
  MILLRACE_RETURN_IF_ERROR(CheckWiring(spec));
  Layer layer;
  layer.name = name;
  layer.input = shape_;
  switch (spec.kind_case()) {
    case LayerSpec::kConvolution:
      return AddConvolution(spec.convolution(), std::move(layer));
    case LayerSpec::kPool:
      return AddPool(spec.pool(), std::move(layer));
    case LayerSpec::kRelu:
      layer.kind = LayerKind::kRelu;
      layer.output = shape_;
      Append(std::move(layer));
      return absl::OkStatus();
    case LayerSpec::kFullyConnected:
      return AddFullyConnected(spec.fully_connected(), std::move(layer));
    case LayerSpec::kSoftmaxCrossEntropy:
      return SetLoss(spec.softmax_cross_entropy(), shape_);
    case LayerSpec::kInputLayer:
    case LayerSpec::KIND_NOT_SET:
      break;
  }
  return Bad("it has no kind (convolution, pool, relu, fully_connected, ...)");
}

absl::Status Builder::AddInput(const InputLayer& spec) {
  if (spec.shape_size() != 3 && spec.shape_size() != 1) {
    return Bad(absl::StrCat("shape wants height, width, channels, or one extent; it has ",
                            spec.shape_size(), " numbers"));
  }
  for (int64_t extent : spec.shape()) {
    if (!InRange(extent, 1, kMaxExtent)) return Bad(absl::StrCat("shape holds ", extent));
  }
  shape_ = Shape(std::span<const int64_t>(spec.shape().data(), spec.shape_size()));
  if (BoundedElements(shape_) > kMaxElements) return Bad("the shape is too large");
  model_.input_field = spec.field().empty() ? "image" : spec.field();
  model_.input_shape = shape_;
  return absl::OkStatus();
}

// Works out layer.output of a window that slides over an image.
absl::Status Builder::Window(Layer& layer, int64_t channels) {
  if (layer.input.rank() != 3) {
    return Bad(absl::StrCat("it wants an image [height, width, channels]; its input is ",
                            layer.input.ToString()));
  }
  if (!InRange(layer.kernel, 1, kMaxExtent)) return Bad("kernel must be 1 or more");
  if (!InRange(layer.stride, 1, kMaxExtent)) return Bad("stride is out of range");
  if (!InRange(layer.padding, 0, layer.kernel - 1)) {
    return Bad(
        absl::StrCat("padding ", layer.padding, " must be less than the kernel, ", layer.kernel));
  }
  int64_t extents[3] = {0, 0, channels};
  for (int i = 0; i < 2; ++i) {
    const int64_t padded = layer.input[i] + 2 * layer.padding;
    if (padded < layer.kernel) {
      return Bad(absl::StrCat("a kernel of ", layer.kernel, " does not fit its input ",
                              layer.input.ToString(), " with padding ", layer.padding));
    }
    extents[i] = (padded - layer.kernel) / layer.stride + 1;
  }
  layer.output = Shape(extents);
  if (BoundedElements(layer.output) > kMaxElements) {
    return Bad(absl::StrCat("its output ", layer.output.ToString(), " is too large"));
  }
  return absl::OkStatus();
}

absl::Status Builder::AddConvolution(const Convolution& spec, Layer layer) {
  layer.kind = LayerKind::kConvolution;
  layer.kernel = spec.kernel();
  layer.stride = spec.stride() == 0 ? 1 : spec.stride();
  layer.padding = spec.padding();
  if (!InRange(spec.filters(), 1, kMaxExtent)) return Bad("filters must be 1 or more");
  MILLRACE_RETURN_IF_ERROR(Window(layer, spec.filters()));
  const int64_t channels = layer.input[2];
  const Shape weights = {spec.filters(), channels, layer.kernel, layer.kernel};
  MILLRACE_RETURN_IF_ERROR(
      AddParameters(layer, weights, channels * layer.kernel * layer.kernel, spec.filters()));
  Append(std::move(layer));
  return absl::OkStatus();
}

absl::Status Builder::AddPool(const Pool& spec, Layer layer) {
  layer.kind = spec.kind() == Pool::AVERAGE ? LayerKind::kAveragePool : LayerKind::kMaxPool;
  layer.kernel = spec.kernel();
  layer.stride = spec.stride() == 0 ? spec.kernel() : spec.stride();
  layer.padding = spec.padding();
  MILLRACE_RETURN_IF_ERROR(Window(layer, layer.input.rank() == 3 ? layer.input[2] : 0));
  Append(std::move(layer));
  return absl::OkStatus();
}

absl::Status Builder::AddFullyConnected(const FullyConnected& spec, Layer layer) {
  layer.kind = LayerKind::kFullyConnected;
  const int64_t inputs = layer.input.num_elements();
  if (!InRange(spec.outputs(), 1, kMaxExtent)) return Bad("outputs must be 1 or more");
  layer.output = {spec.outputs()};
  MILLRACE_RETURN_IF_ERROR(AddParameters(layer, {spec.outputs(), inputs}, inputs, spec.outputs()));
  Append(std::move(layer));
  return absl::OkStatus();
}

absl::Status Builder::SetLoss(const SoftmaxCrossEntropy& spec, const Shape& input) {
  if (input.rank() != 1 || input[0] < 2) {
    return Bad(absl::StrCat("it wants one value per class, at least two; its input is ",
                            input.ToString()));
  }
  if (model_.parameters.empty()) return Bad("the model has nothing to train");
  model_.label_field = spec.label().empty() ? "label" : spec.label();
  model_.num_classes = input[0];
  return absl::OkStatus();
}

absl::Status Builder::AddParameters(Layer& layer, const Shape& weights, int64_t fan_in,
                                    int64_t outputs) {
  if (BoundedElements(weights) > kMaxElements) {
    return Bad(absl::StrCat("its weights ", weights.ToString(), " are too large"));
  }
  layer.weights = static_cast<int>(model_.parameters.size());
  layer.bias = layer.weights + 1;
  model_.parameters.push_back({layer.name + "/weights", weights, fan_in, false});
  model_.parameters.push_back({layer.name + "/bias", Shape{outputs}, fan_in, true});
  return absl::OkStatus();
}

void Builder::Append(Layer layer) {
  shape_ = layer.output;
  model_.layers.push_back(std::move(layer));
}

absl::Status CheckField(const Schema& schema, const std::string& name, bool dtype_ok(DType),
                        std::string_view wanted_dtype, const Shape& shape) {
  const std::string wanted =
      absl::StrCat("the model wants a field '", name, "' of ", ToAbsl(wanted_dtype), " ",
                   shape.ToString(), "; the pipeline makes {", schema.ToString(), "}");
  const Field* field = schema.Find(name);
  if (field == nullptr || !dtype_ok(field->dtype) || !(field->shape == shape)) {
    return absl::InvalidArgumentError(wanted);
  }
  return absl::OkStatus();
}

const char* KindName(LayerKind kind) {
  switch (kind) {
    case LayerKind::kConvolution:
      return "convolution";
    case LayerKind::kMaxPool:
      return "max pool";
    case LayerKind::kAveragePool:
      return "average pool";
    case LayerKind::kRelu:
      return "relu";
    case LayerKind::kFullyConnected:
      return "fully connected";
  }
  return "unknown";
}

}  // namespace

int64_t Model::num_parameters() const {
  int64_t total = 0;
  for (const Parameter& parameter : parameters) total += parameter.shape.num_elements();
  return total;
}

std::string Model::ToText() const {
  std::string text = absl::StrCat("input ", input_shape.ToString(), "\n");
  for (const Layer& layer : layers) {
    absl::StrAppend(&text, "layer '", layer.name, "' ", KindName(layer.kind), " to ",
                    layer.output.ToString(), ", kernel ", layer.kernel, ", stride ", layer.stride,
                    ", padding ", layer.padding, "\n");
  }
  return text;
}

uint64_t Model::Fingerprint() const {
  const std::string text = ToText();
  return XXH3_64bits(text.data(), text.size());
}

absl::StatusOr<Model> BuildModel(const ModelSpec& spec,
                                 const std::function<std::string(int layer)>& where) {
  Builder builder;
  absl::StatusOr<Model> model = builder.Build(spec);
  if (!model.ok()) return Annotate(model.status(), where(builder.current()));
  return model;
}

absl::StatusOr<Model> LoadModel(const std::string& path, const pipeline::Variables& variables,
                                std::set<std::string>& used) {
  ModelSpec spec;
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::TextLocations locations,
                            pipeline::LoadTextProto(path, variables, &spec, &used));
  return BuildModel(spec, [&](int layer) {
    return layer < 0 ? path : locations.At({{"layer", layer}});
  });
}

absl::Status CheckFields(const Model& model, const Schema& schema) {
  MILLRACE_RETURN_IF_ERROR(CheckField(
      schema, model.input_field, [](DType dtype) { return dtype == DType::kF32; }, "float32",
      model.input_shape));
  return CheckField(
      schema, model.label_field,
      [](DType dtype) { return dtype == DType::kI64 || dtype == DType::kI32; }, "int64 or int32",
      Shape{});
}

}  // namespace millrace::trainer
