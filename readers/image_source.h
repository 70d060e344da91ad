#ifndef MILLRACE_READERS_IMAGE_SOURCE_H_
#define MILLRACE_READERS_IMAGE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cancels.h"
#include "base/record_error.h"

// Labelled images outside of TFRecord files, as `millrace convert` takes them.

namespace millrace::readers {

struct SourceImage {
  std::string encoded;      // PNG or JPEG, as it was found; IDX pixels are encoded as grey PNG
  std::string_view format;  // "png" or "jpeg", by the bytes and not by the file's name
  std::string filename;     // path inside the source
  int64_t height = 0;       // from the image's header
  int64_t width = 0;
  int64_t label = 0;
  std::string label_text;  // the class's name; empty: not known
};

// Images with their labels. Immutable and thread-safe; a tar without random_access is
// thread-compatible.
class ImageSource {
 public:
  virtual ~ImageSource() = default;

  virtual uint64_t num_images() const = 0;
  // Names of the classes, by label; empty when the source has none.
  virtual const std::vector<std::string>& class_names() const = 0;
  // Fingerprint of the images and their labels, as far as names, sizes and times of files tell.
  virtual uint64_t Fingerprint() const = 0;
  // Approximate size of image `index` in memory by the container's account, and its label.
  virtual uint64_t ImageBytes(uint64_t index) const = 0;
  virtual int64_t LabelOf(uint64_t index) const = 0;
  // Place of image `index`: its file, offset and ordinal there.
  virtual RecordError PlaceOf(uint64_t index) const = 0;
  // Number of images of kinds that are not read.
  virtual uint64_t num_not_read() const { return 0; }
  // Reads image `index` < num_images(); blocks on the file.
  //   DATA_LOSS, INVALID_ARGUMENT  the image is damaged, or neither PNG nor JPEG
  //   FAILED_PRECONDITION          a tar opened without random_access was asked to go back
  //   other                        the file cannot be read
  // An error that says nothing about other images has a RecordError.
  virtual absl::StatusOr<SourceImage> Read(uint64_t index) = 0;
};

// Opens a pair of IDX files (the MNIST format), each plain or gzip. Both are held in memory.
// Indexes follow the file.
//   NOT_FOUND, ...      a file cannot be opened
//   DATA_LOSS           cut, damaged gzip, longer than its header says
//   INVALID_ARGUMENT    wrong magic, absurd sizes, numbers of images and labels differ
absl::StatusOr<std::unique_ptr<ImageSource>> OpenIdxImages(const std::string& images_path,
                                                           const std::string& labels_path);

// Rules that make labels of paths (folders and tars). Images are the files named .jpg, .jpeg, .jpe,
// .jfif or .png in any case. Names that begin with a dot are hidden and never looked at, and so are
// those that systems make (readers/image/listing.h).
//   - Images in subfolders: every visible first-level folder is a class, whether it has images or
//     not; the sorted names give the labels.
//   - All images directly inside, all named WNID_... (n01440764_18.JPEG): the sorted distinct WNIDs
//     are the classes.
//   - All images directly inside under other names: `label` for all of them.
// A mixture is INVALID_ARGUMENT, and so is a `label` if the paths already tell the classes.
struct ImageLabelOptions {
  std::optional<int64_t> label = {};
  // Names of the classes, by label, in place of those that are there; some of them may have no
  // folder, but an image of another class is an error. Empty: none are given.
  std::vector<std::string> classes = {};
  bool strict = false;  // true to refuse what has images of kinds that are not read
  // Called with a sentence about images that are left out, and one about classes without images,
  // if there are any. Empty: nobody is told.
  std::function<void(std::string_view)> warn = {};
  Cancels cancels = {};  // asked while folders and tars are listed
};

// Reads names for ImageLabelOptions::classes: one per line.
//   INVALID_ARGUMENT  "FILE:LINE: ...": an empty line, or a name that is there twice; no name
//   other             the file cannot be read
absl::StatusOr<std::vector<std::string>> ReadClassNames(const std::string& file);

// Opens a folder. Indexes follow the sorted paths (bytewise).
//   NOT_FOUND            no such folder, or no image in it
//   INVALID_ARGUMENT     the label rules do not fit, or `strict`
//   FAILED_PRECONDITION  a link leads to a folder above it
//   CANCELLED            `cancels` returned true
//   other                a folder cannot be listed
absl::StatusOr<std::unique_ptr<ImageSource>> OpenImageFolder(const std::string& path,
                                                             const ImageLabelOptions& options);

struct ImageTarOptions {
  ImageLabelOptions labels;
  // True to hold all images in memory, so that Read takes indexes in any order; otherwise they must
  // rise.
  bool random_access = false;
  int64_t max_memory_bytes = int64_t{4} << 30;  // for random_access
};

// Opens a tar, plain or compressed with gzip, bzip2 or xz. It is read once here for the names
// (labels need all of them) and a second time by Read. Indexes follow the archive. Leading folders
// that all images share are not classes, but for the folder of the only class that has images.
//   RESOURCE_EXHAUSTED  random_access needs more than max_memory_bytes
//   DATA_LOSS           not a tar, or damaged
//   others              as OpenImageFolder
absl::StatusOr<std::unique_ptr<ImageSource>> OpenImageTar(const std::string& path,
                                                          const ImageTarOptions& options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_IMAGE_SOURCE_H_
