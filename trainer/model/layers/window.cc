#include <array>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/model/layers/families.h"

namespace millrace::trainer {
namespace {

// Checks a window, and works out the extents of its places over the image.
absl::Status Slide(NewLayer& layer, const Window& window, int64_t channels) {
  const Shape& input = layer.inputs[0];
  if (input.rank() != 3) {
    return BadLayer(absl::StrCat("it wants an image [height, width, channels]; its input is ",
                                 input.ToString()));
  }
  int64_t extents[3] = {0, 0, channels};
  for (int i = 0; i < 2; ++i) {
    const int64_t kernel = window.kernel[i];
    const int64_t padding = window.padding[i];
    if (!InRange(kernel, 1, kMaxExtent)) return BadLayer("kernel must be 1 or more");
    if (!InRange(window.stride[i], 1, kMaxExtent)) return BadLayer("stride is out of range");
    if (!InRange(padding, 0, kernel - 1)) {
      return BadLayer(absl::StrCat("padding ", padding, " must be less than the kernel, ", kernel));
    }
    const int64_t padded = input[i] + 2 * padding;
    if (padded < kernel) {
      return BadLayer(absl::StrCat("a kernel of ", kernel, " does not fit its input ",
                                   input.ToString(), " with padding ", padding));
    }
    extents[i] = (padded - kernel) / window.stride[i] + 1;
  }
  layer.output = Shape(extents);
  layer.layer.attributes = window;
  if (IsBounded(layer.output)) return absl::OkStatus();
  return BadLayer(absl::StrCat("its output ", layer.output.ToString(), " is too large"));
}

Window Square(int64_t kernel, int64_t stride, int64_t padding) {
  return {{kernel, kernel}, {stride, stride}, {padding, padding}};
}

absl::Status BuildConvolution(NewLayer& layer) {
  const Convolution& spec = layer.spec.convolution();
  const int64_t filters = spec.filters();
  if (!InRange(filters, 1, kMaxExtent)) return BadLayer("filters must be 1 or more");
  layer.layer.kind = LayerKind::kConvolution;
  const int64_t kernel = spec.kernel();
  MILLRACE_RETURN_IF_ERROR(Slide(
      layer, Square(kernel, spec.stride() == 0 ? 1 : spec.stride(), spec.padding()), filters));
  const int64_t channels = layer.inputs[0][2];
  return AddWeights(layer, {filters, channels, kernel, kernel}, channels * kernel * kernel,
                    filters);
}

absl::Status BuildPool(NewLayer& layer) {
  const Pool& spec = layer.spec.pool();
  layer.layer.kind = spec.kind() == Pool::AVERAGE ? LayerKind::kAveragePool : LayerKind::kMaxPool;
  const int64_t stride = spec.stride() == 0 ? spec.kernel() : spec.stride();
  const Shape& input = layer.inputs[0];
  return Slide(layer, Square(spec.kernel(), stride, spec.padding()),
               input.rank() == 3 ? input[2] : 0);
}

}  // namespace

LayerFamily WindowLayers() {
  static constexpr std::array kRows = {
      LayerRow{LayerSpec::kConvolution, "conv", BuildConvolution},
      LayerRow{LayerSpec::kPool, "pool", BuildPool},
  };
  return kRows;
}

}  // namespace millrace::trainer
