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

// Returns `status`, which is not OK, with `reason` attached.
absl::Status WithReason(absl::Status status, RecordErrorReason reason);
// Returns INVALID_ARGUMENT with `reason` attached: an op's error of one row.
absl::Status RowError(RecordErrorReason reason, std::string_view text);
// Returns DATA_LOSS with kImage: bytes of an image are damaged or missing.
absl::Status ImageDamage(std::string_view text);

// Returns the field `name` for an op's Resolve.
//   NOT_FOUND         there is none; the message names the op and the fields there are
absl::StatusOr<Field> FindField(const Schema& schema, std::string_view name, std::string_view op);

// Adds a field that an op makes beside those that it reads.
//   INVALID_ARGUMENT  a field of that name exists and would be lost
absl::Status AddField(Field field, std::string_view op, Schema* schema);

// Returns INVALID_ARGUMENT "OP: field 'NAME' is DTYPE[SHAPE]; expected EXPECTED".
absl::Status FieldError(const Field& field, std::string_view op, std::string_view expected);

// FindField, and checks that the field is of rank 3 and one of `dtypes`.
absl::StatusOr<Field> FindImage(const Schema& schema, std::string_view name, std::string_view op,
                                std::span<const DType> dtypes);
// Checks that the image is uint8 with 1 or 3 channels, and returns `schema` as it is.
absl::StatusOr<Schema> ResolveColorImage(const Schema& schema, std::string_view name,
                                         std::string_view op);
// FindImage, and returns `schema` with this height and width of the image.
absl::StatusOr<Schema> ResolveExtents(const Schema& schema, std::string_view name,
                                      std::string_view op, std::span<const DType> dtypes,
                                      int64_t height, int64_t width);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_IMAGE_ERRORS_H_
