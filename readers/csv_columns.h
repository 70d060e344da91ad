#ifndef MILLRACE_READERS_CSV_COLUMNS_H_
#define MILLRACE_READERS_CSV_COLUMNS_H_

#include <string>
#include <vector>

namespace millrace::readers {

// The columns that the first rows of CSV files (ContainerOptions::has_header) are to name. Blanks
// around a name do not count.
struct CsvColumns {
  // The columns by which cells are asked for, in that order. Empty: the columns that the first file
  // names, and every other file is to have the same names in the same order.
  std::vector<std::string> names;
  bool allow_more = false;  // true if a file may have other columns beside them
  bool in_order = false;    // true if no file may have them in another order
  char delimiter = ',';     // delimiter of the row of names
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CSV_COLUMNS_H_
