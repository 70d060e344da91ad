#include "augment/field/columns.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "augment/image/errors.h"
#include "base/status.h"

namespace millrace::augment {

absl::StatusOr<Schema> FieldsOp::Resolve(const Schema& input) {
  Schema output = input;
  for (size_t i = 0; i < fields_.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(Field field, FindField(input, fields_[i], op_));
    MILLRACE_ASSIGN_OR_RETURN(field, ResolveField(i, std::move(field)));
    if (field.name == fields_[i]) {
      output.Set(std::move(field));
      continue;
    }
    output.Remove(fields_[i]);
    MILLRACE_RETURN_IF_ERROR(AddField(std::move(field), op_, &output));
  }
  return output;
}

void FieldsOp::Apply(Run& run) const {
  for (size_t i = 0; i < fields_.size(); ++i) ApplyTo(i, run);
}

absl::Status CheckFields(std::string_view op, const std::vector<std::string>& fields) {
  if (fields.empty()) return absl::InvalidArgumentError(absl::StrCat(ToAbsl(op), ": no field"));
  std::set<std::string_view> seen;
  for (const std::string& field : fields) {
    if (!field.empty() && seen.insert(field).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(ToAbsl(op), ": field \"", field, "\" is ",
                                                   field.empty() ? "no name" : "there twice"));
  }
  return absl::OkStatus();
}

absl::Status CheckCount(std::string_view op, std::string_view option, size_t count,
                        size_t num_fields) {
  if (count == 1 || count == num_fields) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(ToAbsl(op), ": ", ToAbsl(option), " has ", count,
                                                 " numbers; expected one, or one per field (",
                                                 num_fields, ")"));
}

}  // namespace millrace::augment
