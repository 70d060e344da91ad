#ifndef MILLRACE_TESTS_TRAINER_BACKEND_REFERENCE_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/trainer/model/test_nets.h"

// Every layer as naive loops in double: the reference of the gradient tests.

namespace millrace::trainer {

using Values = std::vector<double>;

// One row of a layer: what it reads, and shapes.
struct ReferenceRow {
  const Model& model;
  const Layer& layer;
  const std::vector<Values>& parameters;
  std::vector<Values> inputs;

  const Shape& in(size_t slot = 0) const { return model.values[layer.inputs[slot]].shape; }
  const Shape& out() const { return model.values[layer.output].shape; }
};

inline int64_t At(const Shape& s, int64_t y, int64_t x, int64_t c) {
  return (y * s[1] + x) * s[2] + c;
}

// The places of a window over an image: calls `visit` with the index in the window, and the place
// in the image, of those that are inside.
template <typename Visit>
void VisitWindow(const Window& w, const Shape& image, int64_t y, int64_t x, const Visit& visit) {
  for (int64_t ky = 0; ky < w.kernel[0]; ++ky) {
    for (int64_t kx = 0; kx < w.kernel[1]; ++kx) {
      const int64_t sy = y * w.stride[0] - w.padding[0] + ky * w.dilation[0];
      const int64_t sx = x * w.stride[1] - w.padding[2] + kx * w.dilation[1];
      if (sy < 0 || sx < 0 || sy >= image[0] || sx >= image[1]) continue;
      visit(ky * w.kernel[1] + kx, sy, sx);
    }
  }
}

inline double ConvolutionAt(const ReferenceRow& row, int64_t y, int64_t x, int64_t f) {
  const Window& w = row.layer.window();
  const Shape& shape = row.model.parameters[row.layer.weights].shape;
  const int64_t first = f / (shape[0] / w.groups) * shape[1];  // channel of the filter's group
  double sum = row.layer.bias < 0 ? 0 : row.parameters[row.layer.bias][f];
  VisitWindow(w, row.in(), y, x, [&](int64_t k, int64_t sy, int64_t sx) {
    for (int64_t c = 0; c < shape[1]; ++c) {
      sum += row.inputs[0][At(row.in(), sy, sx, first + c)] *
             row.parameters[row.layer.weights][(f * shape[1] + c) * shape[2] * shape[3] + k];
    }
  });
  return sum;
}

inline double PoolAt(const ReferenceRow& row, int64_t y, int64_t x, int64_t c) {
  double top = -std::numeric_limits<double>::infinity();
  double sum = 0;
  int64_t count = 0;
  VisitWindow(row.layer.window(), row.in(), y, x, [&](int64_t, int64_t sy, int64_t sx) {
    const double value = row.inputs[0][At(row.in(), sy, sx, c)];
    top = std::max(top, value);
    sum += value;
    ++count;
  });
  return row.layer.kind == LayerKind::kMaxPool ? top : sum / static_cast<double>(count);
}

// Gathers what each place of the input adds to one of the output.
inline double TransposedAt(const ReferenceRow& row, int64_t y, int64_t x, int64_t f) {
  const Window& w = row.layer.window();
  const Shape& shape = row.model.parameters[row.layer.weights].shape;  // [channels, filters, ...]
  const int64_t group = f / shape[1];
  const int64_t channels = shape[0] / w.groups;
  double sum = row.layer.bias < 0 ? 0 : row.parameters[row.layer.bias][f];
  for (int64_t sy = 0; sy < row.in()[0]; ++sy) {
    for (int64_t sx = 0; sx < row.in()[1]; ++sx) {
      const int64_t dy = y + w.padding[0] - sy * w.stride[0];
      const int64_t dx = x + w.padding[2] - sx * w.stride[1];
      if (dy < 0 || dx < 0 || dy % w.dilation[0] != 0 || dx % w.dilation[1] != 0) continue;
      const int64_t ky = dy / w.dilation[0];
      const int64_t kx = dx / w.dilation[1];
      if (ky >= w.kernel[0] || kx >= w.kernel[1]) continue;
      for (int64_t c = group * channels; c < (group + 1) * channels; ++c) {
        const int64_t k = ((c * shape[1] + f % shape[1]) * w.kernel[0] + ky) * w.kernel[1] + kx;
        sum += row.inputs[0][At(row.in(), sy, sx, c)] * row.parameters[row.layer.weights][k];
      }
    }
  }
  return sum;
}

inline double ChannelMean(const ReferenceRow& row, int64_t c) {
  const int64_t pixels = row.in()[0] * row.in()[1];
  double sum = 0;
  for (int64_t p = 0; p < pixels; ++p) sum += row.inputs[0][p * row.in()[2] + c];
  return sum / static_cast<double>(pixels);
}

inline double ProductAt(const ReferenceRow& row, int64_t i) {
  const size_t inputs = row.inputs[0].size();
  double sum = row.layer.bias < 0 ? 0 : row.parameters[row.layer.bias][i];
  for (size_t k = 0; k < inputs; ++k) {
    sum += row.inputs[0][k] * row.parameters[row.layer.weights][i * inputs + k];
  }
  return sum;
}

inline double ActivationOf(const Layer& layer, double x) {
  switch (layer.kind) {
    case LayerKind::kRelu6:
      return std::min(std::max(x, 0.0), 6.0);
    case LayerKind::kLeakyRelu:
      return x > 0 ? x : std::get<Slope>(layer.attributes).negative * x;
    case LayerKind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case LayerKind::kTanh:
      return std::tanh(x);
    case LayerKind::kSilu:
      return x / (1 + std::exp(-x));
    default:
      return std::max(x, 0.0);
  }
}

// The inputs one after the other, by their last extent.
inline double ConcatAt(const ReferenceRow& row, int64_t i) {
  const int last = row.out().rank() - 1;
  const int64_t pixel = i / row.out()[last];
  int64_t c = i % row.out()[last];
  size_t slot = 0;
  while (c >= row.in(slot)[last]) c -= row.in(slot++)[last];
  return row.inputs[slot][pixel * row.in(slot)[last] + c];
}

// Element `i` of the output of a row.
inline double ElementAt(const ReferenceRow& row, int64_t i) {
  const Shape& out = row.out();
  const bool is_image = out.rank() == 3;
  const int64_t c = is_image ? i % out[2] : i;
  const int64_t x = is_image ? i / out[2] % out[1] : 0;
  const int64_t y = is_image ? i / out[2] / out[1] : 0;
  double sum = 0;
  switch (row.layer.kind) {
    case LayerKind::kConvolution:
      return ConvolutionAt(row, y, x, c);
    case LayerKind::kTransposedConvolution:
      return TransposedAt(row, y, x, c);
    case LayerKind::kMaxPool:
    case LayerKind::kAveragePool:
      return PoolAt(row, y, x, c);
    case LayerKind::kGlobalAveragePool:
      return ChannelMean(row, i);
    case LayerKind::kFullyConnected:
      return ProductAt(row, i);
    case LayerKind::kAdd:
      for (const Values& input : row.inputs) sum += input[i];
      return sum;
    case LayerKind::kMultiply:
      return row.inputs[0][i] * row.inputs[1][i];
    case LayerKind::kConcat:
      return ConcatAt(row, i);
    case LayerKind::kReshape:
      return row.inputs[0][i];
    default:
      return ActivationOf(row.layer, row.inputs[0][i]);
  }
}

inline double SoftmaxLossOf(const Values& logits, int64_t label) {
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  return std::log(sum) - logits[label];
}

// Normalises each channel by its mean and variance over the valid rows.
inline void NormalizeBatch(const Model& model, const Layer& layer,
                           const std::vector<Values>& parameters, const std::vector<uint8_t>& valid,
                           const std::vector<Values>& in, std::vector<Values>& out) {
  const Shape& shape = model.values[layer.output].shape;
  const auto channels = static_cast<size_t>(shape[shape.rank() - 1]);
  out = in;
  for (size_t c = 0; c < channels; ++c) {
    double sum = 0;
    double squares = 0;
    double count = 0;
    for (size_t row = 0; row < in.size(); ++row) {
      for (size_t i = c; valid[row] != 0 && i < in[row].size(); i += channels, ++count) {
        sum += in[row][i];
        squares += in[row][i] * in[row][i];
      }
    }
    const double mean = sum / count;
    const double epsilon = std::get<Normalization>(layer.attributes).epsilon;
    const double deviation = std::sqrt(squares / count - mean * mean + epsilon);
    for (Values& row : out) {
      for (size_t i = c; i < row.size(); i += channels) {
        row[i] =
            (row[i] - mean) / deviation * parameters[layer.weights][c] + parameters[layer.bias][c];
      }
    }
  }
}

// All values of a model, for each row.
inline std::vector<std::vector<Values>> ReferenceForward(const Model& model,
                                                         const std::vector<Values>& parameters,
                                                         const Samples& samples) {
  const size_t rows = samples.valid.size();
  std::vector<std::vector<Values>> values(model.values.size(), std::vector<Values>(rows));
  const auto row_values = static_cast<int64_t>(samples.images.size() / rows);
  for (size_t row = 0; row < rows; ++row) {
    const auto begin = samples.images.begin() + static_cast<int64_t>(row) * row_values;
    values[model.inputs[0].value][row].assign(begin, begin + row_values);
  }
  for (const Layer& layer : model.layers) {
    if (layer.kind == LayerKind::kBatchNorm) {
      NormalizeBatch(model, layer, parameters, samples.valid, values[layer.inputs[0]],
                     values[layer.output]);
      continue;
    }
    for (size_t row = 0; row < rows; ++row) {
      ReferenceRow reference{model, layer, parameters, {}};
      for (const int input : layer.inputs) reference.inputs.push_back(values[input][row]);
      Values& made = values[layer.output][row];
      made.resize(reference.out().num_elements());
      for (size_t i = 0; i < made.size(); ++i) {
        made[i] = ElementAt(reference, static_cast<int64_t>(i));
      }
    }
  }
  return values;
}

// The sum of the losses over valid rows.
inline double ReferenceLoss(const Model& model, const std::vector<Values>& parameters,
                            const Samples& samples) {
  const auto values = ReferenceForward(model, parameters, samples);
  double sum = 0;
  for (size_t row = 0; row < samples.valid.size(); ++row) {
    if (samples.valid[row] == 0) continue;
    for (const Loss& loss : model.losses) {
      sum += SoftmaxLossOf(values[loss.input][row], samples.labels[row]);
    }
  }
  return sum;
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_REFERENCE_H_
