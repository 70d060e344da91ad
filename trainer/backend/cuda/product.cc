#include "trainer/backend/cuda/product.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/shape.h"
#include "base/status.h"

namespace millrace::trainer::cuda {
namespace {

const char* PassName(ProductPass pass) {
  switch (pass) {
    case ProductPass::kForward:
      return "forward convolution";
    case ProductPass::kDataGradient:
      return "data gradient of a convolution";
    case ProductPass::kWeightGradient:
      return "weight gradient of a convolution";
  }
  return "unknown product";
}

std::string PairText(const std::array<int64_t, 2>& pair) {
  return pair[0] == pair[1] ? absl::StrCat(pair[0]) : absl::StrCat(pair[0], "x", pair[1]);
}

std::string PaddingText(const std::array<int64_t, 4>& sides) {
  for (const int64_t side : sides) {
    if (side != sides[0]) return absl::StrJoin(sides, "/");
  }
  return absl::StrCat(sides[0]);
}

std::string WindowText(const Window& window) {
  std::string text =
      absl::StrCat(", stride ", PairText(window.stride), ", padding ", PaddingText(window.padding));
  if (window.dilation != Window().dilation) {
    absl::StrAppend(&text, ", dilation ", PairText(window.dilation));
  }
  if (window.groups != 1) absl::StrAppend(&text, ", groups ", window.groups);
  return text;
}

std::string EpilogueText(const ProductSpec& spec) {
  std::string text;
  if (spec.has_bias) text += ", bias";
  if (spec.has_relu) text += ", ReLU";
  if (spec.has_addend) text += ", addend";
  return text;
}

absl::Status Bad(std::string_view field, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("product: ", ToAbsl(field), " ", ToAbsl(why)));
}

absl::Status CheckRange(std::string_view field, int64_t value, int64_t least) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (value >= least && value <= kMost) return absl::OkStatus();
  return Bad(field, absl::StrCat("is ", value, "; expected ", least, " to ", kMost));
}

absl::Status CheckExtents(const ProductSpec& spec) {
  const std::pair<const char*, int64_t> extents[] = {
      {"rows", spec.rows},         {"height", spec.height},         {"width", spec.width},
      {"channels", spec.channels}, {"out_height", spec.out_height}, {"out_width", spec.out_width},
      {"filters", spec.filters}};
  for (const auto& [field, value] : extents) {
    MILLRACE_RETURN_IF_ERROR(CheckRange(field, value, 1));
  }
  return absl::OkStatus();
}

absl::Status CheckRanges(const Window& window) {
  for (int i = 0; i < 2; ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckRange("window.kernel", window.kernel[i], 1));
    MILLRACE_RETURN_IF_ERROR(CheckRange("window.stride", window.stride[i], 1));
    MILLRACE_RETURN_IF_ERROR(CheckRange("window.dilation", window.dilation[i], 1));
  }
  for (const int64_t side : window.padding) {
    MILLRACE_RETURN_IF_ERROR(CheckRange("window.padding", side, 0));
  }
  return CheckRange("window.groups", window.groups, 1);
}

absl::Status CheckGroups(const ProductSpec& spec) {
  const int64_t groups = spec.window.groups;
  if (spec.channels % groups == 0 && spec.filters % groups == 0) return absl::OkStatus();
  return Bad("window.groups", absl::StrCat("is ", groups, "; it does not divide ", spec.channels,
                                           " channels and ", spec.filters, " filters"));
}

// Along height or width, by `i`.
absl::Status CheckPlaces(const ProductSpec& spec, int i) {
  const Window& window = spec.window;
  const int64_t extent = i == 0 ? spec.height : spec.width;
  const int64_t out = i == 0 ? spec.out_height : spec.out_width;
  const int64_t reach = (window.kernel[i] - 1) * window.dilation[i] + 1;
  const int64_t padded = extent + window.padding[2 * i] + window.padding[2 * i + 1];
  const int64_t places = padded < reach ? 0 : (padded - reach) / window.stride[i] + 1;
  if (out == places) return absl::OkStatus();
  return Bad(i == 0 ? "out_height" : "out_width",
             absl::StrCat("is ", out, "; the window has ", places, " places in ", extent));
}

absl::Status CheckTypes(const ProductSpec& spec) {
  const bool is_known =
      spec.type == DType::kF32 || spec.type == DType::kBF16 || spec.type == DType::kF16;
  if (!is_known) {
    return Bad("type", absl::StrCat("is ", ToAbsl(Name(spec.type)),
                                    "; expected float32, bfloat16 or float16"));
  }
  if (spec.result != spec.type && spec.result != DType::kF32) {
    return Bad("result", absl::StrCat("is ", ToAbsl(Name(spec.result)), "; expected ",
                                      ToAbsl(Name(spec.type)), " or float32"));
  }
  if (!spec.tf32 || spec.type == DType::kF32) return absl::OkStatus();
  return Bad("tf32", absl::StrCat("is set, but type is ", ToAbsl(Name(spec.type))));
}

absl::Status CheckEpilogues(const ProductSpec& spec) {
  const bool is_forward = spec.pass == ProductPass::kForward;
  if (spec.has_bias && !is_forward) return Bad("has_bias", "is set, but pass is not forward");
  if (spec.has_relu && !is_forward) return Bad("has_relu", "is set, but pass is not forward");
  if (!spec.has_addend || spec.pass == ProductPass::kDataGradient) return absl::OkStatus();
  return Bad("has_addend", "is set, but pass is not the data gradient");
}

}  // namespace

std::string Describe(const ProductSpec& spec) {
  const Window& window = spec.window;
  const Shape x = {spec.rows, spec.height, spec.width, spec.channels};
  const Shape w = {spec.filters, window.kernel[0], window.kernel[1],
                   spec.channels / std::max<int64_t>(1, window.groups)};
  std::string text = absl::StrCat(PassName(spec.pass), ", ", ToAbsl(Name(spec.type)), " ",
                                  x.ToString(), " by ", w.ToString(), WindowText(window));
  if (spec.result != spec.type) absl::StrAppend(&text, ", to ", ToAbsl(Name(spec.result)));
  if (spec.tf32) text += ", TF32";
  return text + EpilogueText(spec);
}

absl::Status CheckProductSpec(const ProductSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckExtents(spec));
  MILLRACE_RETURN_IF_ERROR(CheckRanges(spec.window));
  MILLRACE_RETURN_IF_ERROR(CheckGroups(spec));
  for (const int i : {0, 1}) MILLRACE_RETURN_IF_ERROR(CheckPlaces(spec, i));
  MILLRACE_RETURN_IF_ERROR(CheckTypes(spec));
  return CheckEpilogues(spec);
}

}  // namespace millrace::trainer::cuda
