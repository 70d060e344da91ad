#include "pipeline/diagnosis.h"
#include "pipeline/plan_view.h"

namespace millrace::pipeline {

int64_t BytesSavedByUint8(const Plan& plan, const Schema& schema) {
  int64_t saved = 0;
  for (const Field& field : schema.fields()) {
    const auto wide = static_cast<int64_t>(SizeOf(field.dtype)) - 1;
    const bool is_float =
        field.dtype == DType::kF32 || field.dtype == DType::kBF16 || field.dtype == DType::kF16;
    if (!is_float || !field.shape.IsKnown()) continue;
    if (HistoryOf(plan, field.name).values.has_value()) saved += wide * field.shape.num_elements();
  }
  return saved;
}

}  // namespace millrace::pipeline
