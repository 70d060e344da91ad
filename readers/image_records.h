#ifndef MILLRACE_READERS_IMAGE_RECORDS_H_
#define MILLRACE_READERS_IMAGE_RECORDS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "readers/image_source.h"
#include "readers/record_source.h"

namespace millrace::readers {

struct ImageRecordOptions {
  ImageLabelOptions labels;
  uint64_t max_record_bytes = uint64_t{1} << 30;  // of a file
};

// The images of a folder as records with labels (ImageLabelOptions says how they are made): every
// file is a record and a shard of its own, in the order of the sorted paths. Files are looked at
// here for their sizes alone, and opened for each read.
//   NOT_FOUND         no such folder, or no image in it
//   INVALID_ARGUMENT  the label rules do not fit
//   DATA_LOSS         with RecordError: a file is larger than max_record_bytes
//   other             the folder or a file cannot be looked at
absl::StatusOr<std::unique_ptr<RecordSource>> OpenImageRecords(const std::string& folder,
                                                               const ImageRecordOptions& options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_IMAGE_RECORDS_H_
