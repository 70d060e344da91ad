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
  ImageLabelOptions labels = {};
  uint64_t max_record_bytes = uint64_t{1} << 30;  // limit for a file
};

// Opens the images of a folder as records with labels (see ImageLabelOptions). Each file is a
// record and a shard of its own, in the order of the sorted paths. This call asks for the sizes of
// the files only; each read opens its file.
//   DATA_LOSS  with RecordError: a file is larger than max_record_bytes
//   other      as OpenImageFolder, or a file cannot be looked at
absl::StatusOr<std::unique_ptr<RecordSource>> OpenImageRecords(const std::string& folder,
                                                               const ImageRecordOptions& options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_IMAGE_RECORDS_H_
