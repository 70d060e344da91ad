#include "trainer/model/layer.h"

#include "absl/strings/str_cat.h"

namespace millrace::trainer {

const char* KindName(LayerKind kind) {
  switch (kind) {
    case LayerKind::kConvolution:
      return "convolution";
    case LayerKind::kMaxPool:
      return "max pool";
    case LayerKind::kAveragePool:
      return "average pool";
    case LayerKind::kRelu:
      return "relu";
    case LayerKind::kFullyConnected:
      return "fully connected";
  }
  return "unknown";
}

// The fingerprints in checkpoints are of this text, so it stays as it is: layers without a window
// show that of a default one.
std::string Layer::AttributesText() const {
  const Window* const given = std::get_if<Window>(&attributes);
  const Window window = given != nullptr ? *given : Window();
  return absl::StrCat(", kernel ", window.kernel[0], ", stride ", window.stride[0], ", padding ",
                      window.padding[0]);
}

}  // namespace millrace::trainer
