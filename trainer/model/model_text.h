#ifndef MILLRACE_TRAINER_MODEL_MODEL_TEXT_H_
#define MILLRACE_TRAINER_MODEL_MODEL_TEXT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/models.h"

namespace millrace::trainer {

// The text of a model, layer by layer.
class ModelText {
 public:
  explicit ModelText(std::string text) : text_(std::move(text)) {}

  // A layer that reads the one before it, or `inputs`.
  void Add(const std::string& name, const std::string& kind,
           const std::vector<std::string>& inputs = {}) {
    absl::StrAppend(&text_, "layer { name: \"", name, "\" ");
    if (inputs.size() == 1) absl::StrAppend(&text_, "input: \"", inputs[0], "\" ");
    if (inputs.size() > 1) {
      absl::StrAppend(&text_, "input: [\"", absl::StrJoin(inputs, "\", \""), "\"] ");
    }
    absl::StrAppend(&text_, kind, " }\n");
  }
  void AddBlankLine() { text_ += "\n"; }
  // An input of images of these extents: of float32, or of uint8, which become about -1 to 1, in
  // colours by ImageNet's usual means and deviations.
  void AddInput(const NetworkSizes& sizes) {
    const bool is_coloured = sizes.image.back() == 3;
    Add("image", absl::StrCat("input_layer { field: \"image\" shape: [",
                              absl::StrJoin(sizes.image, ", "), "]",
                              !sizes.is_uint8 ? ""
                              : is_coloured   ? kColours
                                              : kGrey,
                              " }"));
    AddBlankLine();
  }
  void AddLoss(const std::string& options = "") {
    AddBlankLine();
    Add("loss", absl::StrCat("softmax_cross_entropy { label: \"label\"", options, " }"));
  }

  const std::string& text() const { return text_; }

 private:
  static constexpr char kColours[] =
      " dtype: \"uint8\" mean: [123.675, 116.28, 103.53] stddev: [58.395, 57.12, 57.375]";
  static constexpr char kGrey[] = " dtype: \"uint8\" mean: 127.5 stddev: 127.5";

  std::string text_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_MODEL_TEXT_H_
