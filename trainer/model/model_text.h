#ifndef MILLRACE_TRAINER_MODEL_MODEL_TEXT_H_
#define MILLRACE_TRAINER_MODEL_MODEL_TEXT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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
  void AddInput(const std::vector<int64_t>& image) {
    Add("image",
        absl::StrCat("input_layer { field: \"image\" shape: [", absl::StrJoin(image, ", "), "] }"));
    AddBlankLine();
  }
  void AddLoss(const std::string& options = "") {
    AddBlankLine();
    Add("loss", absl::StrCat("softmax_cross_entropy { label: \"label\"", options, " }"));
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_MODEL_TEXT_H_
