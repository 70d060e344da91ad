#include "trainer/model/layers/row.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::trainer {

absl::Status BadLayer(std::string_view text) { return absl::InvalidArgumentError(ToAbsl(text)); }

bool IsBounded(const Shape& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape.extents()) {
    elements *= extent;
    if (elements > kMaxElements) return false;
  }
  return true;
}

absl::Status AddWeights(NewLayer& layer, const Shape& weights, int64_t fan_in, int64_t outputs,
                        bool has_bias) {
  if (!IsBounded(weights)) {
    return BadLayer(absl::StrCat("its weights ", weights.ToString(), " are too large"));
  }
  layer.layer.weights = static_cast<int>(layer.parameters.size());
  layer.parameters.push_back({"weights", weights, fan_in, false});
  if (!has_bias) return absl::OkStatus();
  layer.layer.bias = static_cast<int>(layer.parameters.size());
  layer.parameters.push_back({"bias", Shape{outputs}, fan_in, true, Initial::kZeros});
  return absl::OkStatus();
}

}  // namespace millrace::trainer
