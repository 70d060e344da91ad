#ifndef MILLRACE_TRAINER_MODEL_LAYER_H_
#define MILLRACE_TRAINER_MODEL_LAYER_H_

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/shape.h"

namespace millrace::trainer {

enum class LayerKind {
  kConvolution,
  kTransposedConvolution,
  kMaxPool,
  kAveragePool,
  kGlobalAveragePool,
  kFullyConnected,
  kBatchNorm,
  kAdd,
  kMultiply,
  kConcat,
  kReshape,
  kDropout,
  kRelu,
  kRelu6,
  kLeakyRelu,
  kSigmoid,
  kTanh,
  kSilu,
};

// "max pool"
const char* KindName(LayerKind kind);

// The window of a convolution or a pool, which slides over an image. Pairs are height, width.
struct Window {
  std::array<int64_t, 2> kernel = {0, 0};
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> dilation = {1, 1};
  std::array<int64_t, 4> padding = {0, 0, 0, 0};  // top, bottom, left, right
  int64_t groups = 1;
};

struct Slope {
  double negative = 0;  // of a leaky ReLU where its input is negative
};

struct Normalization {
  double momentum = 0;        // the part of a batch in the running statistics
  double epsilon = 0;         // added to the variance
  bool synchronized = false;  // true if the batch is that of all ranks
};

struct DropRate {
  double rate = 0;  // probability of a value to become zero
};

// The settings of a layer beside its inputs and parameters, by its kind; monostate: it has none.
using Attributes = std::variant<std::monostate, Window, Slope, Normalization, DropRate>;

// A layer whose sizes are all worked out. It reads values and makes one.
struct Layer {
  std::string name;
  LayerKind kind = LayerKind::kRelu;
  Attributes attributes;
  std::vector<int> inputs;  // the values that it reads, in the order of the model's file
  int output = -1;          // the value that it makes
  int weights = -1;         // indexes into Model::parameters; -1: the layer has none
  int bias = -1;
  int64_t multiply_adds = 0;  // of one sample, forward: of sums of products alone
  int mean = -1;              // indexes into Model::buffers: running statistics
  int variance = -1;

  // REQUIRES: the layer has a window.
  const Window& window() const { return std::get<Window>(attributes); }
  // True for a batch norm whose batch is that of all ranks.
  bool is_synchronized() const;
  // Its kind for people: "batch norm, synchronized".
  std::string KindText() const;
  // The attributes as Model::ToText has them: ", kernel 5, stride 1, padding 2".
  std::string AttributesText() const;
};

// The result of a layer, or an input of the model. Shapes are per sample: [height, width, channels]
// or [values].
struct Value {
  std::string name;  // of the layer that makes it
  Shape shape;
};

enum class Distribution {
  kHeNormal,       // normal, deviation sqrt(2 / fan)
  kGlorotUniform,  // uniform in +-sqrt(6 / (fan_in + fan_out))
  kNormal,
  kTruncatedNormal,  // without values over two deviations
  kZeros,
  kOnes,
};

// The first values of a parameter.
struct Initial {
  Distribution distribution = Distribution::kHeNormal;
  bool by_fan_out = false;  // true if the fan of kHeNormal is fan_out
  double deviation = 0;     // of kNormal and kTruncatedNormal
};

// A trainable tensor: convolution weights are [filters, channels of a group, height, width], those
// of a transposed one [channels, filters of a group, height, width], those of a fully connected
// layer [outputs, inputs], where inputs run over height, width, channels.
struct Parameter {
  std::string name;  // "conv1/weights"
  Shape shape;
  int64_t fan_in = 1;    // inputs that one output sums
  int64_t fan_out = 1;   // outputs that one input reaches
  bool is_bias = false;  // true for the biases of a layer
  Initial initial = {};
};

// A tensor that follows statistics of the batches, and is not trained: after each batch it is
// (1 - momentum) * itself + momentum * the statistic.
struct Buffer {
  std::string name;  // "bn1/running_mean"
  Shape shape;
  double momentum = 0;
  float initial = 0;  // value of each element at first
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_LAYER_H_
