#include "readers/text/record_fields.h"

#include "absl/strings/str_cat.h"
#include "readers/text/number_text.h"

namespace millrace::readers::internal {

absl::Status AddText(const FeatureSpec& spec, std::string_view text, RecordField& field) {
  field.present = true;
  const char* wrong = nullptr;
  if (spec.dtype == DType::kBytes) {
    field.bytes = text;
  } else if (spec.dtype == DType::kF32) {
    wrong = ParseFloat(text, &field.floats.emplace_back());
  } else {
    wrong = ParseInt(text, &field.ints.emplace_back());
  }
  if (wrong == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(QuotedText(text), " ", wrong));
}

}  // namespace millrace::readers::internal
