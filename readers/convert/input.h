#ifndef MILLRACE_READERS_CONVERT_INPUT_H_
#define MILLRACE_READERS_CONVERT_INPUT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/convert.h"
#include "readers/convert/record.h"

// The inputs of `convert`.

namespace millrace::readers::internal {

// Called with one record after the other.
using TakeRecord = std::function<absl::Status(ConvertRecord record)>;
// Called in place of it, or after it, with the error of a record that cannot be read or was not
// taken, and its place. OK: the other records follow.
using RefuseRecord = std::function<absl::Status(const absl::Status& error)>;

// Some records of an input that need no more fetching in order.
class FetchedRecords {
 public:
  virtual ~FetchedRecords() = default;
  // Thread-safe, but for calls of one object.
  //   other  an error of `refuse`, or the input cannot be read
  virtual absl::Status ForEach(const TakeRecord& take, const RefuseRecord& refuse) = 0;
};

// Thread-safe, except Fetch if fetch_in_order.
class ConvertInput {
 public:
  virtual ~ConvertInput() = default;

  virtual uint64_t num_records() const = 0;
  // Approximate size of a record.
  virtual uint64_t RecordBytes(uint64_t record) const = 0;
  // Class of an image, if it is known without reading it.
  virtual std::optional<int64_t> LabelOf(uint64_t /*record*/) const { return std::nullopt; }
  // True where Fetch is called by one thread at a time, with records that rise, unless they are
  // shuffled.
  virtual bool fetch_in_order() const { return false; }
  virtual absl::StatusOr<std::unique_ptr<FetchedRecords>> Fetch(
      std::vector<uint64_t> records) const = 0;

  // Text that is equal only for equal records.
  virtual std::string Identity() const = 0;
  // Text for people.
  virtual std::string Source() const = 0;
  // Declared features of samples; empty if there is no declaration.
  virtual const std::vector<ConvertFeature>& schema() const = 0;
  virtual const std::vector<std::string>& class_names() const = 0;
  // Number of images of kinds that are not read.
  virtual uint64_t num_not_read() const { return 0; }
  // Errors of files that hold no record for damage; each counts as one record that cannot be
  // converted.
  virtual const std::vector<absl::Status>& damaged_files() const {
    static const std::vector<absl::Status> kNone;
    return kNone;
  }
};

// True for inputs that hold images with labels.
inline bool HoldsImages(ConvertFormat format) {
  return format == ConvertFormat::kIdx || format == ConvertFormat::kImages;
}

// Opens the input that `options` name; with `as_samples` its records are samples, else bytes.
absl::StatusOr<std::unique_ptr<ConvertInput>> OpenConvertInput(const ConvertOptions& options,
                                                               bool as_samples);
// Its two parts.
absl::StatusOr<std::unique_ptr<ConvertInput>> OpenImageInput(const ConvertOptions& options);
absl::StatusOr<std::unique_ptr<ConvertInput>> OpenRecordInput(const ConvertOptions& options,
                                                              bool as_samples);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_CONVERT_INPUT_H_
