#ifndef MILLRACE_READERS_TEXT_FIELD_READER_H_
#define MILLRACE_READERS_TEXT_FIELD_READER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/run.h"
#include "readers/feature_spec.h"
#include "readers/parse_fields.h"
#include "readers/text/record_fields.h"

namespace millrace::readers::internal {

// Reads the wanted features of a record of text or of a tar sample. Immutable.
class FieldReader {
 public:
  virtual ~FieldReader() = default;

  // `fields` are those of the features, all missing. `cells`: ParseFieldsOptions::columns says what
  // they are.
  //   DATA_LOSS         the record is not of the format
  //   INVALID_ARGUMENT  it is, but not as declared
  virtual absl::Status Read(std::string_view record, std::span<const int64_t> cells,
                            RunArena& arena, std::span<RecordField> fields) const = 0;
};

// Looks at `options`, which must outlive it. Every feature's key is one of the columns of kCsv.
std::unique_ptr<const FieldReader> MakeFieldReader(const ParseFieldsOptions& options);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_TEXT_FIELD_READER_H_
