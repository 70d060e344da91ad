#include <algorithm>
#include <array>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/model/layers/families.h"

namespace millrace::trainer {
namespace {

using Numbers = google::protobuf::RepeatedField<uint32_t>;

// Reads one or two numbers; without any, or for a single 0, `pair` stays as it is.
absl::Status ReadPair(std::string_view name, const Numbers& given, std::array<int64_t, 2>& pair) {
  if (given.size() > 2) {
    return BadLayer(absl::StrCat(ToAbsl(name), " has ", given.size(),
                                 " numbers; it wants one, or height and width"));
  }
  if (given.empty() || (given.size() == 1 && given[0] == 0)) return absl::OkStatus();
  pair = {given[0], given[given.size() - 1]};
  return absl::OkStatus();
}

// Reads one, two or four numbers.
absl::Status ReadPadding(const Numbers& given, std::array<int64_t, 4>& sides) {
  switch (given.size()) {
    case 0:
      return absl::OkStatus();
    case 1:
      sides.fill(given[0]);
      return absl::OkStatus();
    case 2:
      sides = {given[0], given[0], given[1], given[1]};
      return absl::OkStatus();
    case 4:
      sides = {given[0], given[1], given[2], given[3]};
      return absl::OkStatus();
    default:
      return BadLayer(absl::StrCat("padding has ", given.size(),
                                   " numbers; it wants one, height and width, or top, bottom, "
                                   "left, right"));
  }
}

absl::Status CheckIsImage(const Shape& input) {
  if (input.rank() == 3) return absl::OkStatus();
  return BadLayer(
      absl::StrCat("it wants an image [height, width, channels]; its input is ", input.ToString()));
}

// Fills in a padding with which an image is divided by the stride, rounded up.
void PadSame(const Shape& input, Window& window) {
  for (int i = 0; i < 2; ++i) {
    const int64_t places = (input[i] + window.stride[i] - 1) / window.stride[i];
    const int64_t reach = (window.kernel[i] - 1) * window.dilation[i] + 1;
    const int64_t total = std::max<int64_t>(0, (places - 1) * window.stride[i] + reach - input[i]);
    window.padding[2 * i] = total / 2;
    window.padding[2 * i + 1] = total - total / 2;
  }
}

absl::Status CheckRanges(const Window& window) {
  for (int i = 0; i < 2; ++i) {
    if (!InRange(window.kernel[i], 1, kMaxExtent)) return BadLayer("kernel must be 1 or more");
    if (!InRange(window.stride[i], 1, kMaxExtent)) return BadLayer("stride is out of range");
    if (!InRange(window.dilation[i], 1, kMaxExtent)) return BadLayer("dilation is out of range");
  }
  return absl::OkStatus();
}

// The number of the window's places along one extent of the image.
absl::StatusOr<int64_t> Places(const Shape& input, const Window& window, int i) {
  const int64_t reach = (window.kernel[i] - 1) * window.dilation[i] + 1;
  for (const int64_t padding : {window.padding[2 * i], window.padding[2 * i + 1]}) {
    if (InRange(padding, 0, reach - 1)) continue;
    return BadLayer(absl::StrCat("padding ", padding, " must be less than the kernel, ", reach));
  }
  const int64_t padded = input[i] + window.padding[2 * i] + window.padding[2 * i + 1];
  if (padded < reach) {
    return BadLayer(absl::StrCat("a kernel of ", reach, " does not fit its input ",
                                 input.ToString(), " with padding ", window.padding[2 * i]));
  }
  return (padded - reach) / window.stride[i] + 1;
}

// The fields that convolutions and pools have.
template <typename Spec>
absl::Status ReadWindow(const Spec& spec, const Shape& input, Window& window) {
  MILLRACE_RETURN_IF_ERROR(CheckIsImage(input));
  MILLRACE_RETURN_IF_ERROR(ReadPair("kernel", spec.kernel(), window.kernel));
  MILLRACE_RETURN_IF_ERROR(ReadPair("stride", spec.stride(), window.stride));
  MILLRACE_RETURN_IF_ERROR(ReadPadding(spec.padding(), window.padding));
  if (spec.same() && !spec.padding().empty()) return BadLayer("same does not go with padding");
  return absl::OkStatus();
}

absl::Status SetOutput(NewLayer& layer, const Window& window, const Shape& output) {
  layer.output = output;
  layer.layer.attributes = window;
  if (IsBounded(output)) return absl::OkStatus();
  return BadLayer(absl::StrCat("its output ", output.ToString(), " is too large"));
}

// Works out the output.
absl::Status Slide(NewLayer& layer, Window window, bool is_same, int64_t channels) {
  MILLRACE_RETURN_IF_ERROR(CheckRanges(window));
  const Shape& input = layer.inputs[0];
  if (is_same) PadSame(input, window);
  MILLRACE_ASSIGN_OR_RETURN(const int64_t height, Places(input, window, 0));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t width, Places(input, window, 1));
  return SetOutput(layer, window, {height, width, channels});
}

absl::Status CheckGroups(const Window& window, int64_t channels, int64_t filters) {
  if (channels % window.groups == 0 && filters % window.groups == 0) return absl::OkStatus();
  return BadLayer(absl::StrCat("groups ", window.groups, " does not divide its ", channels,
                               " channels and ", filters, " filters"));
}

// Reads what convolutions and transposed ones have in common.
template <typename Spec>
absl::Status ReadConvolution(const Spec& spec, const NewLayer& layer, Window& window) {
  if (!InRange(spec.filters(), 1, kMaxExtent)) return BadLayer("filters must be 1 or more");
  MILLRACE_RETURN_IF_ERROR(ReadWindow(spec, layer.inputs[0], window));
  MILLRACE_RETURN_IF_ERROR(ReadPair("dilation", spec.dilation(), window.dilation));
  window.groups = std::max<int64_t>(1, spec.groups());
  return CheckGroups(window, layer.inputs[0][2], spec.filters());
}

absl::Status BuildConvolution(NewLayer& layer) {
  const Convolution& spec = layer.spec.convolution();
  layer.layer.kind = LayerKind::kConvolution;
  Window window;
  MILLRACE_RETURN_IF_ERROR(ReadConvolution(spec, layer, window));
  const int64_t filters = spec.filters();
  MILLRACE_RETURN_IF_ERROR(Slide(layer, window, spec.same(), filters));
  const auto [height, width] = window.kernel;
  const int64_t read = layer.inputs[0][2] / window.groups;
  const Weights weights = {
      {filters, read, height, width}, read * height * width, filters * height * width, filters};
  return AddWeights(layer, weights, spec);
}

// Each place of the output is one filter's window of the input. Places of padding count too.
int64_t CountConvolution(const NewLayer& layer) {
  const Shape& weights = layer.parameters[layer.layer.weights].shape;
  return layer.output.num_elements() * (weights.num_elements() / weights[0]);
}

// Fills in a padding with which an image is multiplied by the stride.
absl::Status CutSame(Window& window) {
  for (int i = 0; i < 2; ++i) {
    const int64_t total = (window.kernel[i] - 1) * window.dilation[i] + 1 - window.stride[i];
    if (total < 0) return BadLayer("same needs a kernel that is no smaller than the stride");
    window.padding[2 * i] = total / 2;
    window.padding[2 * i + 1] = total - total / 2;
  }
  return absl::OkStatus();
}

// Works out the output of a transposed convolution: the image that a convolution would reduce to
// the input.
absl::Status Spread(NewLayer& layer, const Window& window, int64_t filters) {
  const Shape& input = layer.inputs[0];
  int64_t extents[3] = {0, 0, filters};
  for (int i = 0; i < 2; ++i) {
    const int64_t reach = (window.kernel[i] - 1) * window.dilation[i] + 1;
    const int64_t cut = window.padding[2 * i] + window.padding[2 * i + 1];
    const int64_t larger = std::max(window.padding[2 * i], window.padding[2 * i + 1]);
    if (larger >= reach) {
      return BadLayer(absl::StrCat("padding ", larger, " must be less than the kernel, ", reach));
    }
    extents[i] = (input[i] - 1) * window.stride[i] + reach - cut;
    if (!InRange(extents[i], 1, kMaxExtent)) {
      return BadLayer(absl::StrCat("its input ", input.ToString(), " would become ", extents[i],
                                   " high or wide"));
    }
  }
  return SetOutput(layer, window, Shape(extents));
}

absl::Status BuildTransposedConvolution(NewLayer& layer) {
  const TransposedConvolution& spec = layer.spec.transposed_convolution();
  layer.layer.kind = LayerKind::kTransposedConvolution;
  Window window;
  MILLRACE_RETURN_IF_ERROR(ReadConvolution(spec, layer, window));
  MILLRACE_RETURN_IF_ERROR(CheckRanges(window));
  if (spec.same()) MILLRACE_RETURN_IF_ERROR(CutSame(window));
  const int64_t filters = spec.filters();
  MILLRACE_RETURN_IF_ERROR(Spread(layer, window, filters));
  const auto [height, width] = window.kernel;
  const int64_t channels = layer.inputs[0][2];
  const int64_t made = filters / window.groups;
  const Weights weights = {
      {channels, made, height, width}, made * height * width, channels * height * width, filters};
  return AddWeights(layer, weights, spec);
}

// Each value of the input goes into a window of the output. Places that are cut off count too.
int64_t CountTransposedConvolution(const NewLayer& layer) {
  const Shape& weights = layer.parameters[layer.layer.weights].shape;
  return layer.inputs[0].num_elements() * (weights.num_elements() / weights[0]);
}

absl::Status BuildPool(NewLayer& layer) {
  const Pool& spec = layer.spec.pool();
  layer.layer.kind = spec.kind() == Pool::AVERAGE ? LayerKind::kAveragePool : LayerKind::kMaxPool;
  Window window;
  MILLRACE_RETURN_IF_ERROR(ReadWindow(spec, layer.inputs[0], window));
  const bool has_stride = !spec.stride().empty() && spec.stride(0) != 0;
  if (!has_stride) window.stride = window.kernel;
  return Slide(layer, window, spec.same(), layer.inputs[0][2]);
}

absl::Status BuildGlobalAveragePool(NewLayer& layer) {
  MILLRACE_RETURN_IF_ERROR(CheckIsImage(layer.inputs[0]));
  layer.layer.kind = LayerKind::kGlobalAveragePool;
  layer.output = {layer.inputs[0][2]};
  return absl::OkStatus();
}

constexpr LayerOption kFilters = {"filters", "channels of the output", kRequired};
constexpr LayerOption kKernel = {"kernel", "one number, or height and width", kRequired};
constexpr LayerOption kStride = {"stride", "", "1"};
constexpr LayerOption kDilation = {"dilation", "distance of neighbours in the kernel", "1"};
constexpr LayerOption kGroups = {
    "groups", "parts of filters and channels; a filter reads its own part's channels", "1"};
constexpr char kPaddingText[] = "one number, height and width, or top, bottom, left, right";
constexpr LayerOption kSame = {
    "same", "true for the padding that divides the extents by the stride, rounded up", "false"};
constexpr LayerOption kConvolutionOptions[] = {
    kFilters, kKernel,     kStride,        {"padding", kPaddingText, "0"}, kSame, kDilation,
    kGroups,  kBiasOption, kInitialOption,
};
constexpr LayerOption kTransposedOptions[] = {
    kFilters,
    kKernel,
    kStride,
    {"padding", "what is cut off the output", "0"},
    {"same", "true for the padding that multiplies the extents by the stride", "false"},
    kDilation,
    kGroups,
    kBiasOption,
    kInitialOption,
};
constexpr LayerOption kPoolOptions[] = {
    {"kind", "`MAX`, or `AVERAGE` of the values inside the image", "`MAX`"},
    kKernel,
    {"stride", "", "the kernel"},
    {"padding", kPaddingText, "0"},
    kSame,
};

}  // namespace

LayerFamily WindowLayers() {
  static constexpr std::array kRows = {
      LayerRow{LayerSpec::kConvolution, "conv", BuildConvolution,
               "Filters that slide over an image.", kConvolutionOptions, 1, 1, CountConvolution},
      LayerRow{LayerSpec::kTransposedConvolution, "transposed_conv", BuildTransposedConvolution,
               "A convolution's gradient by its input, as a layer: a larger image.",
               kTransposedOptions, 1, 1, CountTransposedConvolution},
      LayerRow{LayerSpec::kPool, "pool", BuildPool,
               "The maximum or mean of each window of an image.", kPoolOptions},
      LayerRow{LayerSpec::kGlobalAveragePool, "global_pool", BuildGlobalAveragePool,
               "The mean of each channel, as a vector."},
  };
  return kRows;
}

}  // namespace millrace::trainer
