#ifndef MILLRACE_PIPELINE_PLAN_CHECK_H_
#define MILLRACE_PIPELINE_PLAN_CHECK_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/plan/message.h"
#include "pipeline/plan/words.h"

// What the checks of all stages' options share.

namespace millrace::pipeline {

inline constexpr uint64_t kMaxElements = uint64_t{1} << 31;  // of a feature, pixels of an image
inline constexpr uint32_t kMaxLanes = 1 << 16;
// Rows in the buffers of shuffles behind a cut and in buckets: every batch's token holds them.
inline constexpr uint64_t kMaxOpenRows = uint64_t{1} << 20;

// "PLACE: what".
inline absl::Status ErrorAt(const std::string& where, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
}

// Checks one stage; each method names the field when it fails.
class OptionsChecker {
 public:
  OptionsChecker(const PipelineAt& at, int stage) : at_(at), stage_(stage) {}

  absl::Status InRange(std::string_view field, uint64_t value, uint64_t low, uint64_t high,
                       int index = -1) const {
    if (value >= low && value <= high) return absl::OkStatus();
    return Error(field, absl::StrCat(" is ", value, " but must be in [", low, ", ", high, "]"),
                 index);
  }

  // height and width are those of an image.
  absl::Status Size(const std::string& field, uint32_t height, uint32_t width) const {
    constexpr uint64_t kMaxExtent = 1 << 16;
    MILLRACE_RETURN_IF_ERROR(HasName("field", field));
    MILLRACE_RETURN_IF_ERROR(InRange("height", height, 1, kMaxExtent));
    return InRange("width", width, 1, kMaxExtent);
  }

  // A resize's method, in `field`.
  absl::Status Interpolation(std::string_view field, const std::string& method,
                             bool antialias) const {
    if (!Find(kResizeMethods, method)) {
      return Error(field,
                   absl::StrCat(" is \"", method, "\" but must be ", ListOf(kResizeMethods)));
    }
    if (!antialias || method == "bilinear" || method == "bicubic") return absl::OkStatus();
    return Error("antialias",
                 absl::StrCat(" is of ", ToAbsl(field), "s \"bilinear\" and \"bicubic\" only"));
  }

 protected:
  // "PLACE: " and the field's name before `what`.
  absl::Status Error(std::string_view field, const std::string& what, int index = -1) const {
    return absl::InvalidArgumentError(
        absl::StrCat(at_.Where(stage_, field, index), ": ", ToAbsl(field), what));
  }

  // `what` at `steps` below the stage.
  absl::Status ErrorAt(std::vector<FieldStep> steps, const std::string& what) const {
    steps.insert(steps.begin(), {"stage", stage_});
    return absl::InvalidArgumentError(absl::StrCat(at_.At(std::move(steps)), ": ", what));
  }

  absl::Status HasName(std::string_view field, const std::string& value) const {
    if (value.empty()) return Error(field, " must name a field");
    return absl::OkStatus();
  }

  // The op's name as the text has it.
  const std::string& op_name() const { return OpName(at_.pipeline->stage(stage_)); }

 private:
  const PipelineAt& at_;
  const int stage_;
};

// The part of CheckStageOptions for maps.
absl::Status CheckMapOptions(const PipelineAt& at, int stage);
// And the part of that for maps of images that are no decoders.
absl::Status CheckImageOptions(const PipelineAt& at, int stage);
// And the part of that for maps of strings, tokens and numbers.
absl::Status CheckFieldOptions(const PipelineAt& at, int stage);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_CHECK_H_
