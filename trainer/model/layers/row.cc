#include "trainer/model/layers/row.h"

#include <cmath>
#include <utility>

#include "absl/status/statusor.h"
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

namespace {

absl::StatusOr<Initial> NormalOf(Distribution distribution, double deviation) {
  if (std::isfinite(deviation) && deviation > 0) return Initial{distribution, false, deviation};
  return BadLayer(absl::StrCat("deviation ", deviation, " is not a number over 0"));
}

absl::StatusOr<Initial> InitialOf(const Initializer& spec) {
  switch (spec.kind_case()) {
    case Initializer::kGlorotUniform:
      return Initial{Distribution::kGlorotUniform};
    case Initializer::kNormal:
      return NormalOf(Distribution::kNormal, spec.normal().deviation());
    case Initializer::kTruncatedNormal:
      return NormalOf(Distribution::kTruncatedNormal, spec.truncated_normal().deviation());
    case Initializer::kZeros:
      return Initial{Distribution::kZeros};
    case Initializer::kOnes:
      return Initial{Distribution::kOnes};
    case Initializer::kHeNormal:
    case Initializer::KIND_NOT_SET:
      break;
  }
  return Initial{Distribution::kHeNormal, spec.he_normal().fan_out()};
}

}  // namespace

absl::Status AddWeights(NewLayer& layer, const Weights& weights, bool has_bias,
                        const Initializer& initial) {
  if (!IsBounded(weights.shape)) {
    return BadLayer(absl::StrCat("its weights ", weights.shape.ToString(), " are too large"));
  }
  Parameter parameter{"weights", weights.shape, weights.fan_in, weights.fan_out};
  MILLRACE_ASSIGN_OR_RETURN(parameter.initial, InitialOf(initial));
  layer.layer.weights = static_cast<int>(layer.parameters.size());
  layer.parameters.push_back(std::move(parameter));
  if (has_bias) {
    layer.layer.bias = static_cast<int>(layer.parameters.size());
    layer.parameters.push_back(MakeBias(weights.outputs));
  }
  return absl::OkStatus();
}

Parameter MakeBias(int64_t outputs) {
  Parameter bias{"bias", Shape{outputs}};
  bias.is_bias = true;
  bias.initial = {Distribution::kZeros};
  return bias;
}

}  // namespace millrace::trainer
