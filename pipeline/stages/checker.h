#ifndef MILLRACE_PIPELINE_STAGES_CHECKER_H_
#define MILLRACE_PIPELINE_STAGES_CHECKER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/plan/message.h"
#include "pipeline/plan/words.h"

// The common part of the checks of all stages' options.

namespace millrace::pipeline {

// Checks the options of one stage. Each method returns INVALID_ARGUMENT that names the field and
// its place. Borrows `at`.
class OptionsChecker {
 public:
  OptionsChecker(const PipelineAt& at, int stage) : at_(at), stage_(stage) {}

  // "PLACE: " and the field's name before `what`.
  absl::Status Error(std::string_view field, const std::string& what, int index = -1) const;
  // `what` at `steps` below the stage.
  absl::Status ErrorBelow(std::vector<FieldStep> steps, const std::string& what) const;
  // The op's name as the text has it.
  const std::string& op_name() const { return OpName(at_.pipeline->stage(stage_)); }

  absl::Status InRange(std::string_view field, uint64_t value, uint64_t low, uint64_t high,
                       int index = -1) const;
  absl::Status IsFinite(std::string_view field, double value, int index = -1) const;
  // In [0, 1].
  absl::Status IsFraction(std::string_view field, float value) const;
  absl::Status IsProbability(float probability) const {
    return IsFraction("probability", probability);
  }
  // The value of pixels that an image does not cover.
  absl::Status IsFill(float fill) const;
  // The parameter of a Beta distribution.
  absl::Status IsAlpha(std::string_view field, float alpha) const;
  absl::Status IsNumeric(std::string_view field, proto::DataType dtype) const;
  // One character that parts the columns of CSV; `what` says which.
  absl::Status IsDelimiter(const std::string& delimiter, const char* what) const;

  absl::Status HasName(std::string_view field, const std::string& value) const;
  // Each of `field` names a field, and no two the same.
  absl::Status AreDistinct(const google::protobuf::RepeatedPtrField<std::string>& fields) const;
  // And there is one at least.
  absl::Status AreFields(const google::protobuf::RepeatedPtrField<std::string>& fields) const;

  // height and width are those of an image.
  absl::Status Size(const std::string& field, uint32_t height, uint32_t width) const;
  // A resize's method, in `field`.
  absl::Status Interpolation(std::string_view field, const std::string& method,
                             bool antialias) const;

  template <typename Value, size_t kSize>
  absl::Status IsOneOf(std::string_view field, const Words<Value, kSize>& words,
                       const std::string& word) const {
    if (Find(words, word)) return absl::OkStatus();
    return Error(field, absl::StrCat(" is \"", word, "\" but must be ", ListOf(words)));
  }

  // One number or two, low <= high, in [least, most].
  template <typename Numbers>
  absl::Status IsRange(std::string_view field, const Numbers& numbers, float least,
                       float most) const {
    const int size = numbers.size();
    if ((size == 1 || size == 2) && numbers[0] >= least && numbers[0] <= numbers[size - 1] &&
        numbers[size - 1] <= most) {
      return absl::OkStatus();
    }
    return Error(field, absl::StrCat(" must be one number, or two, low <= high, in [", least, ", ",
                                     most, "]"));
  }

  // One number, or one per field.
  template <typename Numbers>
  absl::Status IsPerField(std::string_view option, const Numbers& numbers, int num_fields) const {
    if (numbers.size() == 1 || numbers.size() == num_fields) return absl::OkStatus();
    return Error(option, absl::StrCat(" has ", numbers.size(), " numbers but there are ",
                                      num_fields, " fields; give one, or one per field"));
  }

  template <typename Numbers>
  absl::Status AreFinite(std::string_view option, const Numbers& numbers) const {
    for (int i = 0; i < numbers.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(IsFinite(option, numbers[i], i));
    }
    return absl::OkStatus();
  }

 private:
  const PipelineAt& at_;
  const int stage_;
};

// The check of an op on an image of `height` and `width`.
template <typename Message>
absl::Status CheckSize(const OptionsChecker& check, const Message& op) {
  return check.Size(op.field(), op.height(), op.width());
}

// The check of an op that has no option beside `probability` which could be wrong.
template <typename Message>
absl::Status CheckProbability(const OptionsChecker& check, const Message& op) {
  return check.IsProbability(op.probability());
}

// The reason why the extents of a field, of which only the first may be -1, are wrong; "": they are
// not.
std::string WhyNotShape(const google::protobuf::RepeatedField<int64_t>& shape);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_CHECKER_H_
