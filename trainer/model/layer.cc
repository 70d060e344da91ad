#include "trainer/model/layer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace::trainer {

namespace {

struct KindRow {
  LayerKind kind;
  const char* name;
};
constexpr KindRow kKinds[] = {
    {LayerKind::kConvolution, "convolution"},
    {LayerKind::kTransposedConvolution, "transposed convolution"},
    {LayerKind::kMaxPool, "max pool"},
    {LayerKind::kAveragePool, "average pool"},
    {LayerKind::kGlobalAveragePool, "global average pool"},
    {LayerKind::kFullyConnected, "fully connected"},
    {LayerKind::kBatchNorm, "batch norm"},
    {LayerKind::kAdd, "add"},
    {LayerKind::kMultiply, "multiply"},
    {LayerKind::kConcat, "concat"},
    {LayerKind::kReshape, "reshape"},
    {LayerKind::kDropout, "dropout"},
    {LayerKind::kRelu, "relu"},
    {LayerKind::kRelu6, "relu6"},
    {LayerKind::kLeakyRelu, "leaky relu"},
    {LayerKind::kSigmoid, "sigmoid"},
    {LayerKind::kTanh, "tanh"},
    {LayerKind::kSilu, "silu"},
};

// "3", or "3x1" for a window that is not square.
std::string PairText(const std::array<int64_t, 2>& pair) {
  return pair[0] == pair[1] ? absl::StrCat(pair[0]) : absl::StrCat(pair[0], "x", pair[1]);
}

std::string PaddingText(const std::array<int64_t, 4>& padding) {
  for (const int64_t side : padding) {
    if (side != padding[0]) return absl::StrJoin(padding, "/");
  }
  return absl::StrCat(padding[0]);
}

std::string WindowText(const Window& window) {
  std::string text =
      absl::StrCat(", kernel ", PairText(window.kernel), ", stride ", PairText(window.stride),
                   ", padding ", PaddingText(window.padding));
  if (window.dilation != Window().dilation) {
    absl::StrAppend(&text, ", dilation ", PairText(window.dilation));
  }
  if (window.groups != 1) absl::StrAppend(&text, ", groups ", window.groups);
  return text;
}

}  // namespace

const char* KindName(LayerKind kind) {
  for (const KindRow& row : kKinds) {
    if (row.kind == kind) return row.name;
  }
  return "unknown";
}

bool Layer::is_synchronized() const {
  const Normalization* const norm = std::get_if<Normalization>(&attributes);
  return norm != nullptr && norm->synchronized;
}

std::string Layer::KindText() const {
  return absl::StrCat(KindName(kind), is_synchronized() ? ", synchronized" : "");
}

// The fingerprints in checkpoints are of this text, so it stays as it is: two kinds of layers
// without a window show a default one.
std::string Layer::AttributesText() const {
  std::string text;
  if (const Window* const window = std::get_if<Window>(&attributes)) text = WindowText(*window);
  if (const Slope* const slope = std::get_if<Slope>(&attributes)) {
    text = absl::StrCat(", slope ", slope->negative);
  }
  if (const Normalization* const norm = std::get_if<Normalization>(&attributes)) {
    text = absl::StrCat(", momentum ", norm->momentum, ", epsilon ", norm->epsilon,
                        norm->synchronized ? ", synchronized" : "");
  }
  if (const DropRate* const drop = std::get_if<DropRate>(&attributes)) {
    text = absl::StrCat(", rate ", drop->rate);
  }
  if (kind == LayerKind::kRelu || kind == LayerKind::kFullyConnected) text = WindowText({});
  if (weights >= 0 && bias < 0) text += ", no bias";
  return text;
}

}  // namespace millrace::trainer
