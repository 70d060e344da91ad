#ifndef MILLRACE_READERS_CONVERT_OUTPUT_H_
#define MILLRACE_READERS_CONVERT_OUTPUT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/convert.h"
#include "readers/convert/record.h"

// The outputs of `convert`.

namespace millrace::readers::internal {

// One shard that is being written. Thread-compatible.
class ShardWriter {
 public:
  virtual ~ShardWriter() = default;
  //   INVALID_ARGUMENT  the record does not go with those before it
  virtual absl::Status Write(const EncodedRecord& record) = 0;
  // Afterwards the shard is whole and on the disk.
  virtual absl::Status Close() = 0;
};

class ConvertOutput {
 public:
  virtual ~ConvertOutput() = default;

  // Checks the features that samples are declared to have, before a record is read.
  //   INVALID_ARGUMENT  the output could hold no record
  virtual absl::Status CheckDeclared(const std::vector<ConvertFeature>& /*declared*/) const {
    return absl::OkStatus();
  }
  // True where Begin wants to see a record.
  virtual bool needs_first() const { return false; }
  // Fits itself to the input, before anything else. `declared`: the features that samples have,
  // empty where that is not known. `first`: a record, null when there is none or none is needed;
  // where this or Encode refuses it, this is called again with another.
  //   INVALID_ARGUMENT  the output cannot hold such records
  virtual absl::Status Begin(const std::vector<ConvertFeature>& /*declared*/,
                             const ConvertRecord* /*first*/) {
    return absl::OkStatus();
  }

  // Makes record `number` of the output, from 0. Thread-safe.
  //   INVALID_ARGUMENT  the output cannot hold it
  virtual absl::StatusOr<EncodedRecord> Encode(ConvertRecord record, uint64_t number) const = 0;

  // A new shard.
  virtual absl::StatusOr<std::unique_ptr<ShardWriter>> OpenShard(const std::string& path) const = 0;
  // The columns, for the manifest; empty: the format has none.
  virtual std::string schema() const { return ""; }
  // Bytes of each record, where all have the same number; else 0.
  virtual uint64_t record_bytes() const { return 0; }
};

// How names of its shards may end; the first is how they do. Empty: they are folders.
std::span<const std::string_view> ShardExtensions(ConvertFormat format);

// `options` must outlive it. `as_samples`: records are samples. `class_names`: of their labels,
// empty where they are not known.
std::unique_ptr<ConvertOutput> MakeConvertOutput(const ConvertOptions& options, bool as_samples,
                                                 const std::vector<std::string>& class_names);
// Its parts.
std::unique_ptr<ConvertOutput> MakeCsvOutput(const ConvertOptions& options);
std::unique_ptr<ConvertOutput> MakeJsonOutput(const ConvertOptions& options);
std::unique_ptr<ConvertOutput> MakeTarOutput(const ConvertOptions& options);
std::unique_ptr<ConvertOutput> MakeIdxOutput(const ConvertOptions& options);
std::unique_ptr<ConvertOutput> MakeImagesOutput(const ConvertOptions& options,
                                                std::vector<std::string> class_names);

// Whether the classes of a folder of images, by name, have the labels that a reader gives them:
// their places among the sorted names.
//   INVALID_ARGUMENT  says which one has not, and what would help
absl::Status CheckClassesOfShard(const ConvertOptions& options,
                                 const std::map<std::string, int64_t>& labels);

// A shard that is one file: `header`, the bytes of its records, `footer`.
absl::StatusOr<std::unique_ptr<ShardWriter>> OpenFileShard(const std::string& path,
                                                           const ConvertOptions& options,
                                                           std::string_view header = {},
                                                           std::string footer = {});

// The one value of `feature`, as text where it is a number: shortest, so that reading it gives the
// same number.
//   INVALID_ARGUMENT  it has not one value, or is a NaN that no text tells from others
absl::StatusOr<std::string> OneValueText(const SampleFeature& feature);
std::string NumberText(int64_t value);
std::string NumberText(float value);

// INVALID_ARGUMENT: feature 'NAME': TEXT.
absl::Status FeatureError(std::string_view name, std::string_view text);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_CONVERT_OUTPUT_H_
