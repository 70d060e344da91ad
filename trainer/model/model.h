#ifndef MILLRACE_TRAINER_MODEL_MODEL_H_
#define MILLRACE_TRAINER_MODEL_MODEL_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/schema.h"
#include "base/shape.h"
#include "pipeline/plan.h"

namespace millrace::trainer {

class ModelSpec;  // model.proto

enum class LayerKind { kConvolution, kMaxPool, kAveragePool, kRelu, kFullyConnected };

// One layer of the chain, with every size worked out. Shapes are per sample: [height, width,
// channels] or [values].
struct Layer {
  std::string name;
  LayerKind kind = LayerKind::kRelu;
  Shape input;
  Shape output;
  int64_t kernel = 0;  // side of convolutions and pools, which are square
  int64_t stride = 1;
  int64_t padding = 0;
  int weights = -1;  // indexes into Model::parameters; -1: the layer has none
  int bias = -1;
};

// A trainable tensor: convolution weights are [filters, channels, kernel, kernel], those of a fully
// connected layer [outputs, inputs], where inputs run over height, width, channels.
struct Parameter {
  std::string name;  // "conv1/weights"
  Shape shape;
  int64_t fan_in = 1;    // inputs that one output sums
  bool is_bias = false;  // true for the biases of a layer
};

// A checked model: a chain of layers from the input to the loss. Backward makes the gradients in
// the reverse order of `parameters`.
struct Model {
  std::string name;
  std::string input_field;
  Shape input_shape;
  std::string label_field;
  int64_t num_classes = 0;
  std::vector<Layer> layers;
  std::vector<Parameter> parameters;

  int64_t num_parameters() const;  // elements of all of them
  // All settings that a checkpoint's tensors depend on, one layer per line; not the model's name.
  std::string ToText() const;
  uint64_t Fingerprint() const;  // fingerprint of ToText
};

// Works out all shapes. `where` returns the place of a layer, by its number, in the text
// ("FILE:LINE:COLUMN"); for -1, the name of the file.
//   INVALID_ARGUMENT  "WHERE: layer 'conv2': ..." with the shapes
absl::StatusOr<Model> BuildModel(const ModelSpec& spec,
                                 const std::function<std::string(int layer)>& where);

// Reads and builds a model file. The variables that it names are added to `used`.
//   NOT_FOUND         no such file
//   INVALID_ARGUMENT  "FILE:LINE:COLUMN: ..." for text that does not parse, or as BuildModel
absl::StatusOr<Model> LoadModel(const std::string& path, const pipeline::Variables& variables,
                                std::set<std::string>& used);

// Checks that a pipeline's samples carry the fields of `model` with its dtypes and shapes.
//   INVALID_ARGUMENT  a field is missing or different; the text names both sides
absl::Status CheckFields(const Model& model, const Schema& schema);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_MODEL_H_
