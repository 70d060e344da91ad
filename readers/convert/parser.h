#ifndef MILLRACE_READERS_CONVERT_PARSER_H_
#define MILLRACE_READERS_CONVERT_PARSER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/run.h"
#include "readers/convert/record.h"
#include "readers/convert_schema.h"

// Parsers of the bytes of a record for `convert`.

namespace millrace::readers::internal {

// The feature that holds the name of a tar's sample: its path up to the first dot of the last part.
inline constexpr char kTarKey[] = "__key__";

// Immutable.
class RecordParser {
 public:
  virtual ~RecordParser() = default;
  //   DATA_LOSS         the record is not of the format
  //   INVALID_ARGUMENT  it is, but not as declared
  virtual absl::Status Parse(std::string_view payload, RunArena& arena,
                             ConvertRecord& record) const = 0;
};

// A record of any bytes.
std::unique_ptr<const RecordParser> MakeOpaqueParser();
// The same as the only feature of a sample.
std::unique_ptr<const RecordParser> MakeBytesParser(std::string feature);
// A tf.train.Example; features come sorted by name. One without a list of values is an error if it
// is among `taken` (empty: all are), else it is passed over.
std::unique_ptr<const RecordParser> MakeExampleParser(std::vector<std::string> taken);
// A row of CSV. `cells` is what RecordSource::CellsOf says of its shard, where the features of the
// schema are the columns, and outlives it.
std::unique_ptr<const RecordParser> MakeCsvParser(std::vector<ConvertFeature> schema,
                                                  std::span<const int64_t> cells, char delimiter);
// A line of JSON; `allow_nan` as in ParseFieldsOptions.
std::unique_ptr<const RecordParser> MakeJsonParser(std::vector<ConvertFeature> schema,
                                                   bool allow_nan);
// A sample of a tar, its key first. An empty schema: all members.
std::unique_ptr<const RecordParser> MakeTarParser(std::vector<ConvertFeature> schema);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_CONVERT_PARSER_H_
