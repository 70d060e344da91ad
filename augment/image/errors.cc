#include "augment/image/errors.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::augment {

absl::Status WithReason(absl::Status status, RecordErrorReason reason) {
  RecordError error;
  error.reason = reason;
  SetRecordError(status, error);
  return status;
}

absl::Status RowError(RecordErrorReason reason, std::string_view text) {
  return WithReason(absl::InvalidArgumentError(ToAbsl(text)), reason);
}

absl::Status ImageDamage(std::string_view text) {
  return WithReason(absl::DataLossError(ToAbsl(text)), RecordErrorReason::kImage);
}

absl::StatusOr<Field> FindField(const Schema& schema, std::string_view name, std::string_view op) {
  MILLRACE_RETURN_IF_ERROR(Annotate(schema.CheckHas(name), op));
  return *schema.Find(name);
}

absl::Status AddField(Field field, std::string_view op, Schema* schema) {
  if (schema->Find(field.name) != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(op), ": there is a field '", field.name, "' already"));
  }
  schema->Set(std::move(field));
  return absl::OkStatus();
}

absl::Status FieldError(const Field& field, std::string_view op, std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(ToAbsl(op), ": field '", field.name, "' is ",
                                                 ToAbsl(Name(field.dtype)), field.shape.ToString(),
                                                 "; expected ", ToAbsl(expected)));
}

absl::StatusOr<Field> FindImage(const Schema& schema, std::string_view name, std::string_view op,
                                std::span<const DType> dtypes) {
  MILLRACE_ASSIGN_OR_RETURN(Field field, FindField(schema, name, op));
  if (field.shape.rank() == 3 && std::ranges::find(dtypes, field.dtype) != dtypes.end()) {
    return field;
  }
  std::string expected;
  for (DType dtype : dtypes) {
    absl::StrAppend(&expected, expected.empty() ? "" : " or ", ToAbsl(Name(dtype)));
  }
  return FieldError(field, op, absl::StrCat(expected, " [height, width, channels]"));
}

absl::StatusOr<Schema> ResolveColorImage(const Schema& schema, std::string_view name,
                                         std::string_view op) {
  static constexpr DType kBytesOnly[] = {DType::kU8};
  MILLRACE_ASSIGN_OR_RETURN(const Field field, FindImage(schema, name, op, kBytesOnly));
  if (field.shape[2] == 1 || field.shape[2] == 3) return schema;
  return FieldError(field, op, "1 or 3 channels");
}

absl::StatusOr<Schema> ResolveExtents(const Schema& schema, std::string_view name,
                                      std::string_view op, std::span<const DType> dtypes,
                                      int64_t height, int64_t width) {
  MILLRACE_ASSIGN_OR_RETURN(Field field, FindImage(schema, name, op, dtypes));
  field.shape = Shape{height, width, field.shape[2]};
  Schema output = schema;
  output.Set(std::move(field));
  return output;
}

}  // namespace millrace::augment
