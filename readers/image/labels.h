#ifndef MILLRACE_READERS_IMAGE_LABELS_H_
#define MILLRACE_READERS_IMAGE_LABELS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/image/listing.h"
#include "readers/image_source.h"

namespace millrace::readers::internal {

inline constexpr int64_t kMaxImageBytes = int64_t{1} << 30;  // the readers' cap of a record, too

// The class that a path names: its first folder, or the WNID before the underscore. Empty: none.
std::string_view ClassOf(std::string_view path);

struct PathLabels {
  std::vector<std::string> class_names;  // empty: one label for all
  std::vector<int64_t> labels;           // by path
  uint64_t num_not_read = 0;             // images of kinds that are not read
};

// Tells what is left out.
//   INVALID_ARGUMENT  it is an error (`strict`)
absl::Status TellLeftOut(const ImageListing& listing, const ImageLabelOptions& options,
                         std::string_view root);

// The error of a folder or tar without images; `left_out` are those of kinds that are not read.
absl::Status NoImages(std::string_view root, const std::vector<std::string>& left_out);

// Labels the images of `listing` by the rules of ImageLabelOptions, and tells what is left out and
// which classes are empty. `root` is named in messages.
//   NOT_FOUND         there is no image
//   INVALID_ARGUMENT  the rules do not fit; a class is not among those that are given; `strict`,
//                     and images are left out
absl::StatusOr<PathLabels> LabelImages(const ImageListing& listing,
                                       const ImageLabelOptions& options, std::string_view root);

// Makes the image at `path` out of its bytes; reads the header. An error has a RecordError,
// but for RESOURCE_EXHAUSTED, which says nothing about the image.
absl::StatusOr<SourceImage> MakeSourceImage(std::string encoded, const std::string& path,
                                            const PathLabels& labels, uint64_t index);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_IMAGE_LABELS_H_
