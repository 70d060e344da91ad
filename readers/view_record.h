#ifndef MILLRACE_READERS_VIEW_RECORD_H_
#define MILLRACE_READERS_VIEW_RECORD_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "readers/example_view.h"
#include "readers/scan.h"

namespace millrace::readers {

// How values of a feature may be those of a wider type.
enum class Widening {
  kNone,
  kNumbers,  // JSON: a whole number may be a float32
  kText,     // CSV and tar: a number is text, and may be bytes or, if it is whole, a float32
};

using NamedValues = std::vector<std::pair<std::string, FeatureValues>>;

// Looks into the records of a file of any kind, for people and tools. Thread-compatible.
class RecordViewer {
 public:
  explicit RecordViewer(const ScanKind& kind);
  ~RecordViewer();

  // Sets the names of the columns of CSV (ScanVisitor::on_columns).
  void SetColumns(std::vector<std::string> names);

  // The named values of a record, in their order; views into it, or into this object until the next
  // call. TFRecord: the features of a tf.train.Example. csv: cells by the names of the columns,
  // else by column_1 and so on. tar: members by their extensions. JSON lines: members by their
  // paths ("user.id"), true and false as 1 and 0, NaN and Infinity as floats; null and objects in
  // lists have no values. A folder of images: the one `image`. Others have none.
  //   DATA_LOSS  it is not of its kind
  absl::StatusOr<NamedValues> View(std::string_view payload);

  // True if the last record was a JSON line that is one with NaN or an infinity only (allow_nan in
  // ParseFieldsOptions).
  bool needs_nan() const;

  Widening widening() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_VIEW_RECORD_H_
