#include "pipeline/run/failed_rows.h"

#include <algorithm>
#include <utility>

namespace millrace::pipeline {

void FailedRows::Look(std::string_view stage) {
  if (run_.all_ok()) return;
  for (int64_t row = 0; row < run_.num_rows(); ++row) {
    if (!run_.ok(row)) Note(row, stage);
  }
}

void FailedRows::Note(int64_t row, std::string_view stage) {
  if (failed_.empty()) failed_.resize(static_cast<size_t>(run_.num_rows()), false);
  if (failed_[static_cast<size_t>(row)]) return;
  failed_[static_cast<size_t>(row)] = true;
  rows_.push_back({row, stage});
}

std::string_view FailedRows::StageOf(int64_t row) const {
  return std::ranges::find(rows_, row, &Row::row)->stage;
}

std::vector<FailedRows::Row> FailedRows::Take() {
  std::ranges::sort(rows_, {}, &Row::row);
  return std::move(rows_);
}

}  // namespace millrace::pipeline
