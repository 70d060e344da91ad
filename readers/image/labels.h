#ifndef MILLRACE_READERS_IMAGE_LABELS_H_
#define MILLRACE_READERS_IMAGE_LABELS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "readers/image_source.h"

namespace millrace::readers::internal {

inline constexpr int64_t kMaxImageBytes = int64_t{1} << 30;  // the readers' cap of a record, too

// True for a path that names an image: .jpg, .jpeg or .png, no part beginning with a dot.
bool IsImagePath(std::string_view path);

// The images below `root`: paths relative to it, sorted bytewise.
//   NOT_FOUND, other  it cannot be listed
absl::StatusOr<std::vector<std::string>> ListImages(const std::string& root);

struct PathLabels {
  std::vector<std::string> class_names;  // empty: one label for all
  std::vector<int64_t> labels;           // by path
};

// Labels `paths`, relative to `root` (for messages), by the rules of ImageLabelOptions.
absl::StatusOr<PathLabels> LabelPaths(std::span<const std::string> paths,
                                      const ImageLabelOptions& options, std::string_view root);

// Makes the image at `path` out of its bytes; reads the header.
absl::StatusOr<SourceImage> MakeSourceImage(std::string encoded, const std::string& path,
                                            const PathLabels& labels, uint64_t index);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_IMAGE_LABELS_H_
