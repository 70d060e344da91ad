#ifndef MILLRACE_READERS_SOURCE_CSV_HEADER_H_
#define MILLRACE_READERS_SOURCE_CSV_HEADER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/io.h"
#include "readers/csv_columns.h"

// Rows that name the columns of CSV files.
//
// Names are matched once, when the files are opened: they leave a list of numbers for each
// file, and none where every file has the columns as they are asked for. So rows are split as
// if there were no names.

namespace millrace::readers {

// The number of cells in a row, and then which of them each wanted column is. Empty: the row of
// names is lost.
using CellOrder = std::vector<int64_t>;

// The names in the first row of `file` (inflated bytes), without quotes, and without blanks around
// those that have no quotes; blank lines in front of it are no row.
//   INVALID_ARGUMENT  there is no row, or it has more than 16 MiB, or is none
//   other             the file cannot be read
absl::StatusOr<std::vector<std::string>> ReadCsvHeader(const RandomAccessFile& file,
                                                       char delimiter);

// Where the wanted columns are among the `found` names of `file`, which is for messages.
//   INVALID_ARGUMENT  a name is missing, there twice, or one too many; the text says which, and
//                     tells both lists
absl::StatusOr<CellOrder> MatchHeader(const std::string& file,
                                      const std::vector<std::string>& found,
                                      const CsvColumns& wanted);

// The same of all `files`, by `threads` threads; empty where all of them have the wanted columns in
// their order and no others. `read` returns the names of a file by its number; none: they are lost.
absl::StatusOr<std::vector<CellOrder>> MatchHeaders(
    const std::vector<std::string>& files, const CsvColumns& wanted, int threads,
    const std::function<absl::StatusOr<std::vector<std::string>>(size_t)>& read);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_SOURCE_CSV_HEADER_H_
