#ifndef MILLRACE_PIPELINE_BATCH_ROW_STORE_H_
#define MILLRACE_PIPELINE_BATCH_ROW_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "base/tensor.h"
#include "pipeline/batch/data.h"

namespace millrace::pipeline {

// Calls `visit(from, to, bytes)` for the stretches that a value of shape `own` and its place, a
// `padded` field, have in common: byte offsets in the value and in the place. REQUIRES: equal
// ranks; no extent of `own` is larger.
void VisitPadded(const Shape& own, const Field& padded,
                 const std::function<void(size_t from, size_t to, size_t bytes)>& visit);

// Stores the value of row `slot` of a tensor, and fills the rest of a padded place. REQUIRES: the
// tensor is a field's; a value of a dense one has data, if it has elements.
//   INVALID_ARGUMENT  it has another dtype or shape than the field, or does not fit its place
//   INTERNAL          it has another shape than pass 1 told: its ops do not repeat what they did
absl::Status StoreRow(BatchData& data, size_t tensor, int64_t slot, const ConstTensorView& value);

// Makes a slab that was just taken one without samples: zeroes the values of rows that `data` does
// not call valid, and writes the row splits.
void ClearPadding(BatchData& data);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_BATCH_ROW_STORE_H_
