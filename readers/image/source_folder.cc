#include <utility>

#include "absl/strings/str_cat.h"
#include "base/local_path.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/container/record_index.h"
#include "readers/image/labels.h"
#include "readers/image/listing.h"
#include "readers/image_source.h"
#include "readers/open_file.h"
#include "readers/shard_stamp.h"
#include "xxhash.h"

namespace millrace::readers {
namespace {

class FolderSource final : public ImageSource {
 public:
  FolderSource(std::string root, std::vector<std::string> paths, internal::PathLabels labels)
      : root_(std::move(root)), paths_(std::move(paths)), labels_(std::move(labels)) {
    for (size_t i = 0; i < paths_.size(); ++i) {
      // Read says what is wrong with a file that has none.
      stamps_.push_back(StampOf(PathOf(i)).value_or(ShardStamp()));
    }
  }

  uint64_t num_images() const override { return paths_.size(); }
  const std::vector<std::string>& class_names() const override { return labels_.class_names; }
  uint64_t Fingerprint() const override {
    uint64_t digest = 0;
    for (size_t i = 0; i < paths_.size(); ++i) {
      const ShardStamp& stamp = stamps_[i];
      const std::string text = absl::StrCat(paths_[i], "\n", stamp.file_size, " ", stamp.mtime_ns);
      digest = XXH3_64bits_withSeed(text.data(), text.size(), digest);
    }
    return digest;
  }
  uint64_t ImageBytes(uint64_t index) const override {
    return static_cast<uint64_t>(stamps_[index].file_size);
  }
  int64_t LabelOf(uint64_t index) const override { return labels_.labels[index]; }
  RecordError PlaceOf(uint64_t index) const override {
    RecordError place;
    place.file = PathOf(index);
    place.offset = 0;
    place.ordinal = 0;
    return place;
  }
  uint64_t num_not_read() const override { return labels_.num_not_read; }

  absl::StatusOr<SourceImage> Read(uint64_t index) override {
    absl::StatusOr<std::string> bytes = ReadWholeFile(PathOf(index), internal::kMaxImageBytes);
    if (!bytes.ok()) return Unreadable(bytes.status(), index);
    auto image = internal::MakeSourceImage(*std::move(bytes), paths_[index], labels_, index);
    if (!image.ok()) return Annotate(image.status(), root_);
    return image;
  }

 private:
  std::string PathOf(uint64_t index) const { return internal::PathIn(root_, paths_[index]); }

  // A file that is gone, forbidden or no image by its size says nothing about the others.
  absl::Status Unreadable(absl::Status status, uint64_t index) const {
    if (absl::IsNotFound(status) || absl::IsPermissionDenied(status) ||
        absl::IsInvalidArgument(status)) {
      SetRecordError(status, PlaceOf(index));
    }
    return status;
  }

  const std::string root_;
  const std::vector<std::string> paths_;
  const internal::PathLabels labels_;
  std::vector<ShardStamp> stamps_;  // by path
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageSource>> OpenImageFolder(const std::string& name,
                                                             const ImageLabelOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string path, LocalPath(name));
  MILLRACE_ASSIGN_OR_RETURN(internal::ImageListing listing,
                            internal::ListImages(path, options.cancels));
  MILLRACE_ASSIGN_OR_RETURN(internal::PathLabels labels,
                            internal::LabelImages(listing, options, path));
  return std::make_unique<FolderSource>(path, std::move(listing.paths), std::move(labels));
}

}  // namespace millrace::readers
