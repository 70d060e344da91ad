#ifndef MILLRACE_TRAINER_MODEL_MODEL_H_
#define MILLRACE_TRAINER_MODEL_MODEL_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/schema.h"
#include "base/shape.h"
#include "pipeline/plan.h"
#include "trainer/model/layer.h"
#include "trainer/model/loss.h"

namespace millrace::trainer {

class ModelSpec;  // model.proto

// The types of the fields that a model reads, which become float32.
inline constexpr DType kInputTypes[] = {DType::kF32,  DType::kU8,  DType::kF16,
                                        DType::kBF16, DType::kI32, DType::kI64};

// A field of the batch that the model reads.
struct ModelInput {
  std::string field;
  DType dtype = DType::kF32;
  int value = -1;  // the value that it becomes
  // Of uint8, by channel: a value becomes (value - mean) / stddev.
  std::vector<double> mean;
  std::vector<double> stddev;
};

// A checked model: layers in an order in which each reads only values that exist, from the inputs
// to the losses. Every value has a reader. Backward makes the gradients in the reverse order of
// `parameters`.
struct Model {
  std::string name;
  std::vector<Value> values;  // of the inputs and of the layers, in the order of the file
  std::vector<ModelInput> inputs;
  std::vector<Layer> layers;
  std::vector<Loss> losses;
  std::vector<Parameter> parameters;
  std::vector<Buffer> buffers;

  const Shape& input_shape(size_t i) const { return values[inputs[i].value].shape; }
  int64_t num_parameters() const;  // elements of all of them
  // The first layer whose batch is that of all ranks; null: none.
  const Layer* FindSynchronized() const;
  // All settings that a checkpoint's tensors depend on, one layer per line; not the model's name.
  std::string ToText() const;
  uint64_t Fingerprint() const;  // fingerprint of ToText
};

// The end of a model: its losses, or one value that nothing reads, whose gradient is given.
enum class ModelEnd { kLosses, kOutput };

// Works out all shapes. `where` returns the place of a layer, by its number, in the text
// ("FILE:LINE:COLUMN"); for -1, the name of the file.
//   INVALID_ARGUMENT  "WHERE: layer 'conv2': ..." with the shapes
absl::StatusOr<Model> BuildModel(const ModelSpec& spec,
                                 const std::function<std::string(int layer)>& where,
                                 ModelEnd end = ModelEnd::kLosses);

// Reads and builds a model file. The variables that it names are added to `used`.
//   NOT_FOUND         no such file
//   INVALID_ARGUMENT  "FILE:LINE:COLUMN: ..." for text that does not parse, or as BuildModel
absl::StatusOr<Model> LoadModel(const std::string& path, const pipeline::Variables& variables,
                                std::set<std::string>& used, ModelEnd end = ModelEnd::kLosses);

// Checks that a pipeline's samples carry the fields of `model` with its dtypes and shapes.
//   INVALID_ARGUMENT  a field is missing or different; the text names both sides
absl::Status CheckFields(const Model& model, const Schema& schema);
// The same of the fields that the model's inputs read, without the targets.
absl::Status CheckInputFields(const Model& model, const Schema& schema);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_MODEL_H_
