#ifndef MILLRACE_READERS_PARSE_FIELDS_H_
#define MILLRACE_READERS_PARSE_FIELDS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"
#include "readers/feature_spec.h"

namespace millrace::readers {

// The format of a record's bytes.
enum class RecordFormat {
  kCsv,   // a row of RFC 4180; a feature's key is the name of a column
  kJson,  // an object; a feature's key is a path, "user.id"
  kTar,   // the tar blocks of a WebDataset sample; a feature's key is an extension, or several of
          // which the first that is there counts: "jpg;jpeg;png"
};

// "parse_csv", "parse_json", "parse_tar".
std::string_view OpName(RecordFormat format);

struct ParseFieldsOptions {
  RecordFormat format = RecordFormat::kJson;
  std::vector<FeatureSpec> features;  // bytes and scalars alone for kCsv and kTar
  std::string field = kRecordField;   // bytes
  // For kCsv: the names of all columns, in order, and the character between cells. If the run has
  // the column CellsColumn(field), that says for each row in which cells the columns are
  // (RecordSource::CellsOf); a row without a value there has them in order.
  std::vector<std::string> columns;
  char delimiter = ',';
  // For kJson: true if NaN, Infinity and -Infinity, which JSON does not have, are numbers.
  bool allow_nan = false;
};

// The name of the column, int64, that goes along with rows of CSV in `field`. No field of a plan is
// called so.
std::string CellsColumn(std::string_view field);

// Makes the op `parse_csv`, `parse_json` or `parse_tar`, which turns the column `field` (consumed)
// into one column per feature (docs/semantics.md, S-PARSE-1 ff.). Row errors: DATA_LOSS kExample
// (not of the format), INVALID_ARGUMENT kFeature (missing, no such number, another shape, another
// number of columns).
//   INVALID_ARGUMENT  the options do not fit each other
absl::StatusOr<std::unique_ptr<Op>> MakeParseFields(ParseFieldsOptions options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_PARSE_FIELDS_H_
