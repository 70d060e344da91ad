#ifndef MILLRACE_TRAINER_MODEL_LAYERS_ROW_H_
#define MILLRACE_TRAINER_MODEL_LAYERS_ROW_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/shape.h"
#include "trainer/model/layer.h"
#include "trainer/model/model.pb.h"

// A kind of layer is one row: its default name, its shape rule, its parameters, its cost and the
// text of its documentation. Rows are constants, in one file per family of layers; table.h looks
// them up.
//
// To add a kind, add its message to model.proto, its LayerKind, its row to a family's file, and the
// function that compiles it to the table of each backend.

namespace millrace::trainer {

// A layer that is being built.
struct NewLayer {
  const LayerSpec& spec;
  std::vector<Shape> inputs;  // shapes of the values that it reads
  Layer layer;                // its kind and attributes are set by the rule
  Shape output;
  std::vector<Parameter> parameters;  // their names are without the layer's: "weights"
  std::vector<Buffer> buffers;        // likewise
};

// One field of a layer's message, for people.
struct LayerOption {
  const char* name;
  const char* text;   // its meaning, in Markdown; may be empty
  const char* value;  // the default in words
};

inline constexpr char kRequired[] = "required";
inline constexpr LayerOption kBiasOption = {"bias", "true if there are biases", "true"};
inline constexpr LayerOption kInitialOption = {
    "initial", "[distribution](#first-weights) of the first weights", "`he_normal {}`"};

struct LayerRow {
  LayerSpec::KindCase kind = LayerSpec::KIND_NOT_SET;
  const char* prefix = "";  // of default names: "conv" of "conv1"
  // Works out the output and the parameters, and checks the settings.
  //   INVALID_ARGUMENT  a setting is out of range, or does not fit the inputs' shapes
  absl::Status (*build)(NewLayer& layer) = nullptr;
  const char* doc = "";  // a sentence
  std::span<const LayerOption> options = {};
  int least_inputs = 1;
  int most_inputs = 1;
  // Counts the multiply-adds of one sample, forward, of a layer that is built; null: it sums no
  // products.
  int64_t (*multiply_adds)(const NewLayer& layer) = nullptr;
};

using LayerFamily = std::span<const LayerRow>;

// --- For rules ---

inline constexpr int64_t kMaxExtent = 1 << 20;
inline constexpr int64_t kMaxElements = int64_t{1} << 31;  // of one tensor; oneDNN counts in int

absl::Status BadLayer(std::string_view text);
inline bool InRange(int64_t value, int64_t low, int64_t high) {
  return value >= low && value <= high;
}
// True if the tensor has no more than kMaxElements. REQUIRES: no extent is over kMaxExtent.
bool IsBounded(const Shape& shape);

// A bias for each of `outputs`.
Parameter MakeBias(int64_t outputs);

// The weights of a layer, and its biases: one for each of `outputs`.
struct Weights {
  Shape shape;
  int64_t fan_in = 1;
  int64_t fan_out = 1;
  int64_t outputs = 1;
};

// Adds weights and, unless `spec` has none, biases. `spec` has the fields `bias` and `initial`.
template <typename Spec>
absl::Status AddWeights(NewLayer& layer, const Weights& weights, const Spec& spec);
// The same, of these fields.
absl::Status AddWeights(NewLayer& layer, const Weights& weights, bool has_bias,
                        const Initializer& initial);

template <typename Spec>
absl::Status AddWeights(NewLayer& layer, const Weights& weights, const Spec& spec) {
  return AddWeights(layer, weights, !spec.has_bias() || spec.bias(), spec.initial());
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_LAYERS_ROW_H_
