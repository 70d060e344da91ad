#include "pipeline/run/open_batch.h"

#include <utility>

namespace millrace::pipeline {

void OpenBatch::AddBadRow(BadRow bad) {
  if (candidates == 0) ++num_bad_rows;  // a candidate in place of a bad row is not counted again
  if (bad.tolerable) {
    tolerable.push_back(std::move(bad));
  } else if (bad.row < error_row) {
    error_row = bad.row;
    error = std::move(bad.error);
  }
}

}  // namespace millrace::pipeline
