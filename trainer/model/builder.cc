// Builds a model from its text. Layers are wired by name, and each reads only layers before it in
// the file, so the file's order is an order in which they can run, and a circle cannot be written.

#include <cmath>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/model/layers/losses.h"
#include "trainer/model/layers/table.h"
#include "trainer/model/model.h"
#include "trainer/model/model.pb.h"

namespace millrace::trainer {
namespace {

std::string_view PrefixOf(LayerSpec::KindCase kind) {
  if (kind == LayerSpec::kInputLayer) return "input";
  if (IsLoss(kind)) return "loss";
  const LayerRow* const row = FindRow(kind);
  return row != nullptr ? row->prefix : "layer";
}

std::string Inputs(int count) { return absl::StrCat(count, count == 1 ? " input" : " inputs"); }

// One number for all channels, or one for each.
absl::StatusOr<std::vector<double>> ByChannel(std::string_view name,
                                              const google::protobuf::RepeatedField<double>& given,
                                              int64_t channels, double fallback) {
  const int64_t count = given.size();
  if (count > 1 && count != channels) {
    return BadLayer(
        absl::StrCat(ToAbsl(name), " has ", count, " numbers; there are ", channels, " channels"));
  }
  std::vector<double> numbers(channels, count == 1 ? given[0] : fallback);
  if (count > 1) numbers.assign(given.begin(), given.end());
  return numbers;
}

absl::Status ReadType(const InputLayer& spec, ModelInput& input) {
  for (const DType dtype : kInputTypes) {
    if (spec.dtype() != Name(dtype) && !(spec.dtype().empty() && dtype == DType::kF32)) continue;
    input.dtype = dtype;
    return absl::OkStatus();
  }
  return BadLayer(absl::StrCat("dtype \"", spec.dtype(),
                               "\" is not float32, uint8, float16, bfloat16, int32 or int64"));
}

absl::Status ReadNormalization(const InputLayer& spec, int64_t channels, ModelInput& input) {
  MILLRACE_RETURN_IF_ERROR(ReadType(spec, input));
  if (input.dtype != DType::kU8) {
    if (spec.mean().empty() && spec.stddev().empty()) return absl::OkStatus();
    return BadLayer("mean and stddev are of uint8 alone");
  }
  MILLRACE_ASSIGN_OR_RETURN(input.mean, ByChannel("mean", spec.mean(), channels, 0));
  MILLRACE_ASSIGN_OR_RETURN(input.stddev, ByChannel("stddev", spec.stddev(), channels, 1));
  for (const double mean : input.mean) {
    if (!std::isfinite(mean)) return BadLayer(absl::StrCat("mean holds ", mean));
  }
  for (const double deviation : input.stddev) {
    if (!(std::isfinite(deviation) && deviation > 0)) {
      return BadLayer(absl::StrCat("stddev holds ", deviation, ", which is no number over 0"));
    }
  }
  return absl::OkStatus();
}

class Builder {
 public:
  Builder(const ModelSpec& spec, ModelEnd end) : spec_(spec), end_(end) {}

  absl::StatusOr<Model> Build();
  // The number of the layer that an error is about; -1: none.
  int current() const { return current_; }

 private:
  absl::Status NameLayers();
  absl::Status Add(const LayerSpec& spec);
  absl::Status AddInput(const InputLayer& spec);
  absl::Status AddLayer(const LayerRow& row, const LayerSpec& spec, std::vector<int> inputs);
  absl::Status AddLoss(const LayerSpec& spec, const std::vector<int>& inputs);
  // The values that a layer reads.
  absl::StatusOr<std::vector<int>> Resolve(const LayerSpec& spec);
  absl::StatusOr<int> Find(const std::string& name);
  absl::Status AddOutput();
  absl::Status CheckWhole();

  const std::string& name() const { return names_[current_]; }
  // Makes a value of the layer that is being built.
  int AddValue(const Shape& shape);

  const ModelSpec& spec_;
  const ModelEnd end_;
  Model model_;
  int current_ = -1;
  std::vector<std::string> names_;     // of all layers of the file
  std::map<std::string, int> places_;  // numbers of the layers, by name
  std::map<std::string, int> values_;  // by the name of the layer that makes them
  std::vector<int> makers_;            // the number of the layer that makes a value
  std::vector<bool> is_read_;          // by value
};

absl::StatusOr<Model> Builder::Build() {
  model_.name = spec_.name();
  if (spec_.layer_size() < 2) {
    return BadLayer(end_ == ModelEnd::kLosses ? "a model needs an input layer and a loss"
                                              : "a model needs an input layer and another");
  }
  MILLRACE_RETURN_IF_ERROR(NameLayers());
  for (current_ = 0; current_ < spec_.layer_size(); ++current_) {
    MILLRACE_RETURN_IF_ERROR(
        Annotate(Add(spec_.layer(current_)), absl::StrCat("layer '", name(), "'")));
  }
  if (end_ == ModelEnd::kOutput) MILLRACE_RETURN_IF_ERROR(AddOutput());
  MILLRACE_RETURN_IF_ERROR(CheckWhole());
  return std::move(model_);
}

absl::Status Builder::NameLayers() {
  std::map<std::string_view, int> count;  // by prefix
  for (current_ = 0; current_ < spec_.layer_size(); ++current_) {
    const LayerSpec& layer = spec_.layer(current_);
    const std::string_view prefix = PrefixOf(layer.kind_case());
    const int number = ++count[prefix];
    std::string name = layer.name();
    if (name.empty()) name = absl::StrCat(ToAbsl(prefix), number);
    if (!places_.emplace(name, current_).second) {
      return BadLayer(absl::StrCat("two layers are called '", name, "'"));
    }
    names_.push_back(std::move(name));
  }
  return absl::OkStatus();
}

absl::Status Builder::Add(const LayerSpec& spec) {
  if (spec.kind_case() == LayerSpec::kInputLayer) {
    if (spec.input_size() > 0) return BadLayer("an input_layer reads no layer");
    return AddInput(spec.input_layer());
  }
  const LayerRow* const row = FindRow(spec.kind_case());
  const bool is_loss = IsLoss(spec.kind_case());
  if (row == nullptr && !is_loss) {
    return BadLayer("it has no kind (convolution, pool, relu, fully_connected, ...)");
  }
  MILLRACE_ASSIGN_OR_RETURN(std::vector<int> inputs, Resolve(spec));
  if (is_loss) return AddLoss(spec, inputs);
  return AddLayer(*row, spec, std::move(inputs));
}

absl::StatusOr<std::vector<int>> Builder::Resolve(const LayerSpec& spec) {
  std::vector<int> inputs;
  std::vector<std::string> names(spec.input().begin(), spec.input().end());
  if (names.empty()) {
    if (current_ == 0) return BadLayer("it reads no layer: the first must be an input_layer");
    names.push_back(names_[current_ - 1]);
  }
  for (const std::string& name : names) {
    MILLRACE_ASSIGN_OR_RETURN(inputs.emplace_back(), Find(name));
    is_read_[inputs.back()] = true;
  }
  return inputs;
}

absl::StatusOr<int> Builder::Find(const std::string& name) {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  const auto place = places_.find(name);
  if (place == places_.end()) {
    return BadLayer(absl::StrCat("its input '", name, "' is no layer of the model"));
  }
  if (place->second < current_) return BadLayer(absl::StrCat("its input '", name, "' is a loss"));
  const char* const later = place->second == current_ ? "itself" : "a layer after it";
  return BadLayer(
      absl::StrCat("its input '", name, "' is ", later, "; a layer reads those before it"));
}

int Builder::AddValue(const Shape& shape) {
  const int value = static_cast<int>(model_.values.size());
  model_.values.push_back({name(), shape});
  values_[name()] = value;
  makers_.push_back(current_);
  is_read_.push_back(false);
  return value;
}

absl::Status Builder::AddInput(const InputLayer& spec) {
  if (spec.shape_size() != 3 && spec.shape_size() != 1) {
    return BadLayer(absl::StrCat("shape wants height, width, channels, or one extent; it has ",
                                 spec.shape_size(), " numbers"));
  }
  for (const int64_t extent : spec.shape()) {
    if (!InRange(extent, 1, kMaxExtent)) return BadLayer(absl::StrCat("shape holds ", extent));
  }
  const Shape shape(std::span<const int64_t>(spec.shape().data(), spec.shape_size()));
  if (!IsBounded(shape)) return BadLayer("the shape is too large");
  ModelInput input;
  input.field = spec.field().empty() ? "image" : spec.field();
  MILLRACE_RETURN_IF_ERROR(ReadNormalization(spec, shape[shape.rank() - 1], input));
  input.value = AddValue(shape);
  model_.inputs.push_back(std::move(input));
  return absl::OkStatus();
}

absl::Status Builder::AddLayer(const LayerRow& row, const LayerSpec& spec,
                               std::vector<int> inputs) {
  const int given = static_cast<int>(inputs.size());
  if (!InRange(given, row.least_inputs, row.most_inputs)) {
    return BadLayer(absl::StrCat("it has ", Inputs(given), "; it wants ",
                                 row.least_inputs == row.most_inputs
                                     ? absl::StrCat(row.least_inputs)
                                     : absl::StrCat(row.least_inputs, " or more")));
  }
  NewLayer built{spec, {}, {}, {}, {}, {}};
  for (const int input : inputs) built.inputs.push_back(model_.values[input].shape);
  MILLRACE_RETURN_IF_ERROR(row.build(built));
  Layer& layer = built.layer;
  layer.name = name();
  layer.inputs = std::move(inputs);
  layer.output = AddValue(built.output);
  if (row.multiply_adds != nullptr) layer.multiply_adds = row.multiply_adds(built);
  const int first = static_cast<int>(model_.parameters.size());
  for (int* const index : {&layer.weights, &layer.bias}) *index += *index >= 0 ? first : 0;
  for (Parameter& parameter : built.parameters) {
    parameter.name = absl::StrCat(name(), "/", parameter.name);
    model_.parameters.push_back(std::move(parameter));
  }
  const int first_buffer = static_cast<int>(model_.buffers.size());
  for (int* const index : {&layer.mean, &layer.variance}) *index += *index >= 0 ? first_buffer : 0;
  for (Buffer& buffer : built.buffers) {
    buffer.name = absl::StrCat(name(), "/", buffer.name);
    model_.buffers.push_back(std::move(buffer));
  }
  model_.layers.push_back(std::move(layer));
  return absl::OkStatus();
}

absl::Status Builder::AddLoss(const LayerSpec& spec, const std::vector<int>& inputs) {
  if (inputs.size() > 1) return BadLayer("a loss reads one layer");
  MILLRACE_ASSIGN_OR_RETURN(Loss loss, BuildLoss(spec, model_.values[inputs[0]].shape));
  loss.name = name();
  loss.input = inputs[0];
  model_.losses.push_back(std::move(loss));
  return absl::OkStatus();
}

// The output is the last value.
absl::Status Builder::AddOutput() {
  if (!model_.losses.empty()) {
    current_ = places_[model_.losses[0].name];
    return BadLayer(absl::StrCat("layer '", name(),
                                 "': the model has a loss; its last layer is to be "
                                 "its output"));
  }
  const int output = static_cast<int>(model_.values.size()) - 1;
  Loss& loss = model_.losses.emplace_back();
  loss.name = model_.values[output].name;
  loss.kind = LossKind::kGivenGradient;
  loss.input = output;
  loss.shape = model_.values[output].shape;
  is_read_[output] = true;
  return absl::OkStatus();
}

absl::Status Builder::CheckWhole() {
  for (size_t value = 0; value < is_read_.size(); ++value) {
    if (is_read_[value]) continue;
    current_ = makers_[value];
    return BadLayer(absl::StrCat("layer '", name(), "': no layer and no loss reads it"));
  }
  current_ = -1;
  if (model_.losses.empty()) return BadLayer("the model has no loss");
  if (model_.parameters.empty()) return BadLayer("the model has nothing to train");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Model> BuildModel(const ModelSpec& spec,
                                 const std::function<std::string(int layer)>& where, ModelEnd end) {
  Builder builder(spec, end);
  absl::StatusOr<Model> model = builder.Build();
  if (!model.ok()) return Annotate(model.status(), where(builder.current()));
  return model;
}

}  // namespace millrace::trainer
