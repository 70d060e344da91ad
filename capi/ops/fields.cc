#include "capi/ops/fields.h"

#include "base/record_error.h"
#include "capi/call/error.h"
#include "capi/call/sized.h"

namespace millrace::capi {
namespace {

absl::StatusOr<Field> FieldOf(const char* type, const mr_field* given) {
  MILLRACE_RETURN_IF_ERROR(CheckGiven(type, {{"a field of writes", given != nullptr}}));
  mr_field taken;
  MILLRACE_RETURN_IF_ERROR(Take(given, "mr_field", taken));
  MILLRACE_RETURN_IF_ERROR(CheckGiven("mr_field", {{"name", taken.name != nullptr}}));
  const bool is_dtype = taken.dtype >= MR_BYTES && taken.dtype <= MR_FLOAT64;
  if (!is_dtype || taken.rank < 0 || taken.rank > Shape::kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("field ", taken.name, " has dtype ", taken.dtype,
                                                   " and rank ", taken.rank,
                                                   ", of which one is none"));
  }
  return Field{.name = taken.name,
               .dtype = static_cast<DType>(taken.dtype),
               .shape = Shape(std::span(taken.shape, static_cast<size_t>(taken.rank)))};
}

}  // namespace

absl::Status AddNames(const char* type, const char* what, const char* const* names, size_t count,
                      std::vector<std::string>& added) {
  for (size_t i = 0; i < count; ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckGiven(type, {{what, names != nullptr && names[i] != nullptr}}));
    added.emplace_back(names[i]);
  }
  return absl::OkStatus();
}

absl::Status AddFields(const char* type, const mr_field* const* fields, size_t count,
                       std::vector<Field>& added) {
  for (size_t i = 0; i < count; ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckGiven(type, {{"writes", fields != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(Field field, FieldOf(type, fields[i]));
    added.push_back(std::move(field));
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> ShapeOf(const char* call, const int64_t* shape, int32_t rank) {
  if (rank < 0 || rank > Shape::kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat(call, ": rank is ", rank));
  }
  return Shape(std::span(shape, static_cast<size_t>(rank)));
}

absl::Status TakeSampleError(mr_error* error) {
  absl::Status taken = TakeError(error);
  if (taken.code() == absl::StatusCode::kDataLoss && !GetRecordError(taken)) {
    RecordError damage;
    damage.reason = RecordErrorReason::kValue;
    SetRecordError(taken, damage);
  }
  return taken;
}

}  // namespace millrace::capi
