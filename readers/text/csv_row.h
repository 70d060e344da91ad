#ifndef MILLRACE_READERS_TEXT_CSV_ROW_H_
#define MILLRACE_READERS_TEXT_CSV_ROW_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/run.h"

// One row of RFC 4180.

namespace millrace::readers::internal {

struct CsvCell {
  std::string_view text;  // without the quotes around it, doubled ones inside it single
  bool quoted = false;    // true if quotes stood around it
};

// Splits `row`, which may end with a line end, and returns how many cells there are; `cells` gets
// the first cells.size() of them, as views into the row or, where quotes were doubled, `arena`.
//   DATA_LOSS  a quote is not closed, or is where none may be; or there is a second row
absl::StatusOr<size_t> SplitCsvRow(std::string_view row, char delimiter, RunArena& arena,
                                   std::span<CsvCell> cells);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_TEXT_CSV_ROW_H_
