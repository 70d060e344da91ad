#include <array>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/model/layers/families.h"

namespace millrace::trainer {
namespace {

constexpr int kMostInputs = 1024;

absl::Status CheckSameShapes(const NewLayer& layer) {
  for (const Shape& input : layer.inputs) {
    if (input == layer.inputs[0]) continue;
    return BadLayer(absl::StrCat("its inputs differ in shape: ", layer.inputs[0].ToString(),
                                 " and ", input.ToString()));
  }
  return absl::OkStatus();
}

template <LayerKind kKind>
absl::Status BuildElementwise(NewLayer& layer) {
  MILLRACE_RETURN_IF_ERROR(CheckSameShapes(layer));
  layer.layer.kind = kKind;
  layer.output = layer.inputs[0];
  return absl::OkStatus();
}

absl::Status BuildConcat(NewLayer& layer) {
  const Shape& first = layer.inputs[0];
  const int last = first.rank() - 1;
  std::array<int64_t, Shape::kMaxRank> extents{};
  std::copy(first.extents().begin(), first.extents().end(), extents.begin());
  extents[last] = 0;
  for (const Shape& input : layer.inputs) {
    bool fits = input.rank() == first.rank();
    for (int i = 0; fits && i < last; ++i) fits = input[i] == first[i];
    if (!fits) {
      return BadLayer(absl::StrCat("its inputs differ in more than the last extent: ",
                                   first.ToString(), " and ", input.ToString()));
    }
    extents[last] += input[last];
  }
  layer.layer.kind = LayerKind::kConcat;
  layer.output = Shape(std::span<const int64_t>(extents.data(), first.rank()));
  if (InRange(extents[last], 1, kMaxExtent) && IsBounded(layer.output)) return absl::OkStatus();
  return BadLayer(absl::StrCat("its output ", layer.output.ToString(), " is too large"));
}

absl::Status BuildReshape(NewLayer& layer) {
  const auto& shape = layer.spec.reshape().shape();
  layer.layer.kind = LayerKind::kReshape;
  const int64_t elements = layer.inputs[0].num_elements();
  if (shape.empty()) {
    layer.output = {elements};
    return absl::OkStatus();
  }
  if (shape.size() != 3 && shape.size() != 1) {
    return BadLayer(absl::StrCat("shape wants height, width, channels, or one extent; it has ",
                                 shape.size(), " numbers"));
  }
  for (const int64_t extent : shape) {
    if (!InRange(extent, 1, kMaxElements)) return BadLayer(absl::StrCat("shape holds ", extent));
  }
  layer.output = Shape(std::span<const int64_t>(shape.data(), shape.size()));
  if (IsBounded(layer.output) && layer.output.num_elements() == elements) return absl::OkStatus();
  return BadLayer(absl::StrCat("its shape ", layer.output.ToString(), " does not hold its input ",
                               layer.inputs[0].ToString()));
}

constexpr LayerOption kReshapeOptions[] = {
    {"shape", "height, width, channels, or one number", "one vector"},
};

}  // namespace

LayerFamily JoinLayers() {
  static constexpr std::array kRows = {
      LayerRow{LayerSpec::kAdd,
               "add",
               BuildElementwise<LayerKind::kAdd>,
               "The sum of two or more inputs of one shape.",
               {},
               2,
               kMostInputs},
      LayerRow{LayerSpec::kMultiply,
               "multiply",
               BuildElementwise<LayerKind::kMultiply>,
               "The product of two inputs of one shape, value by value.",
               {},
               2,
               2},
      LayerRow{LayerSpec::kConcat,
               "concat",
               BuildConcat,
               "Two or more inputs one after the other, by their last extent.",
               {},
               2,
               kMostInputs},
      LayerRow{LayerSpec::kReshape, "reshape", BuildReshape,
               "The same values in another shape; they run over height, width, channels.",
               kReshapeOptions},
  };
  return kRows;
}

}  // namespace millrace::trainer
