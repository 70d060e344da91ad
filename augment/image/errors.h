#ifndef MILLRACE_AUGMENT_IMAGE_ERRORS_H_
#define MILLRACE_AUGMENT_IMAGE_ERRORS_H_

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/record_error.h"
#include "base/schema.h"

namespace millrace::augment {

// `status`, not OK, with `reason` attached.
absl::Status WithReason(absl::Status status, RecordErrorReason reason);
// INVALID_ARGUMENT with `reason` attached: what an op tells of one row.
absl::Status RowError(RecordErrorReason reason, std::string_view text);
// DATA_LOSS of an image, kImage: bytes are damaged or missing.
absl::Status ImageDamage(std::string_view text);

// Returns the field `name` for an op's Resolve.
//   NOT_FOUND         there is none; the message names the op and the fields there are
absl::StatusOr<Field> FindField(const Schema& schema, std::string_view name, std::string_view op);

// Adds a field that an op makes beside those it reads.
//   INVALID_ARGUMENT  there is one of that name, which would be lost
absl::Status AddField(Field field, std::string_view op, Schema* schema);

// INVALID_ARGUMENT "OP: field 'NAME' is DTYPE[SHAPE]; expected EXPECTED".
absl::Status FieldError(const Field& field, std::string_view op, std::string_view expected);

// FindField, and the field is one of `dtypes` of rank 3.
absl::StatusOr<Field> FindImage(const Schema& schema, std::string_view name, std::string_view op,
                                std::span<const DType> dtypes);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_IMAGE_ERRORS_H_
