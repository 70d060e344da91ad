#ifndef MILLRACE_PIPELINE_RUN_FAILED_ROWS_H_
#define MILLRACE_PIPELINE_RUN_FAILED_ROWS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/run.h"

namespace millrace::pipeline {

// Remembers which rows of a run failed, and the stage that said so.
class FailedRows {
 public:
  struct Row {
    int64_t row;
    std::string_view stage;
  };
  explicit FailedRows(const Run& run) : run_(run) {}

  // Called after `stage` has worked on the run.
  void Look(std::string_view stage);
  // Called instead after a stage has failed one row.
  void Note(int64_t row, std::string_view stage);
  // The stage that failed the row. REQUIRES: one did.
  std::string_view StageOf(int64_t row) const;
  // Ascending.
  std::vector<Row> Take();

 private:
  const Run& run_;
  std::vector<bool> failed_;
  std::vector<Row> rows_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_RUN_FAILED_ROWS_H_
