#include "capi/loader/stream.h"

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/run.h"
#include "capi/call/sized.h"
#include "capi/context/context.h"

namespace millrace::capi {
namespace {

static_assert(static_cast<int32_t>(DType::kBytes) == MR_BYTES);
static_assert(static_cast<int32_t>(DType::kU8) == MR_UINT8);
static_assert(static_cast<int32_t>(DType::kI32) == MR_INT32);
static_assert(static_cast<int32_t>(DType::kI64) == MR_INT64);
static_assert(static_cast<int32_t>(DType::kF16) == MR_FLOAT16);
static_assert(static_cast<int32_t>(DType::kBF16) == MR_BFLOAT16);
static_assert(static_cast<int32_t>(DType::kF32) == MR_FLOAT32);
static_assert(static_cast<int32_t>(DType::kF64) == MR_FLOAT64);
static_assert(Shape::kMaxRank <= MR_MAX_RANK);

mr_field FieldOf(const Field& field) {
  mr_field shown = {};
  shown.struct_size = sizeof shown;
  shown.name = field.name.c_str();
  shown.dtype = static_cast<int32_t>(field.dtype);
  shown.rank = field.shape.rank();
  for (int i = 0; i < field.shape.rank(); ++i) shown.shape[i] = field.shape[i];
  return shown;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Context>> ContextOr(const mr_context* given,
                                                   const pipeline::Plan& plan) {
  if (given != nullptr) return given->context;
  return pipeline::MakeContext(plan);
}

absl::Status GiveLength(const pipeline::Pipeline& stream, mr_length* length) {
  const pipeline::StreamLength told = stream.length();
  mr_length filled = {};
  filled.infinite = told.infinite;
  filled.known = told.known;
  filled.batches = told.batches;
  filled.batches_per_epoch = told.batches_per_epoch;
  return Give(filled, length, "mr_length");
}

void ShowFields(const pipeline::Pipeline& stream, void (*visit)(void* user, const mr_field* field),
                void* user) {
  for (const Field& field : stream.schema().fields()) {
    const mr_field shown = FieldOf(field);
    visit(user, &shown);
  }
}

absl::Status ShowPlace(const pipeline::Pipeline& stream, const mr_sample_id& id,
                       void (*visit)(void* user, const mr_record* record), void* user) {
  const uint64_t num_records = stream.num_records();  // 0: not known
  if (num_records != 0 && id.record >= num_records) {
    return absl::OutOfRangeError(
        absl::StrCat("there is no record ", id.record, ": the source has ", num_records));
  }
  const RecordError where = stream.Locate({id.epoch, id.record, id.sub_index});
  const mr_record shown = RecordOf(where);
  visit(user, &shown);
  return absl::OkStatus();
}

}  // namespace millrace::capi
