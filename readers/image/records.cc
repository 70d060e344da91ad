#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/local_path.h"
#include "base/status.h"
#include "readers/container/container.h"
#include "readers/image/labels.h"
#include "readers/image_records.h"
#include "readers/open_file.h"
#include "readers/shard_stamp.h"
#include "xxhash.h"

// A folder may hold millions of images, so nothing is kept open and nothing is kept of a file but
// its path, size, time and label. A file that grew or shrank since is seen when it is opened for a
// read.

namespace millrace::readers {
namespace {

// A file that is opened for each read.
class ClosedFile final : public RandomAccessFile {
 public:
  ClosedFile(std::string path, uint64_t size) : path_(std::move(path)), size_(size) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto file, OpenFile(path_));
    if (file->size() != size_) {
      return absl::DataLossError(absl::StrCat(path_, ": has ", file->size(), " bytes, and had ",
                                              size_, " when the folder was opened"));
    }
    return file->ReadAt(offset, out);
  }
  uint64_t size() const override { return size_; }
  const std::string& path() const override { return path_; }

 private:
  const std::string path_;
  const uint64_t size_;
};

class ImageRecords final : public RecordSource {
 public:
  ImageRecords(std::vector<std::string> files, std::vector<ShardStamp> stamps,
               std::vector<int64_t> labels, uint64_t fingerprint)
      : files_(std::move(files)),
        stamps_(std::move(stamps)),
        labels_(std::move(labels)),
        fingerprint_(fingerprint) {}

  uint64_t num_records() const override { return files_.size(); }
  bool has_labels() const override { return true; }
  int64_t Label(uint64_t record) const override { return labels_[record]; }
  const std::vector<std::string>& files() const override { return files_; }
  std::shared_ptr<const RandomAccessFile> file(uint32_t shard) const override {
    return std::make_shared<ClosedFile>(files_[shard], stamps_[shard].file_size);
  }
  std::optional<ShardStamp> stamp(uint32_t shard) const override { return stamps_[shard]; }
  RecordRef Locate(uint64_t record) const override {
    RecordRef ref;
    ref.shard = static_cast<uint32_t>(record);
    ref.length = stamps_[record].file_size;
    return ref;
  }
  uint64_t memory_bytes() const override {
    return files_.size() * (sizeof files_[0] + sizeof stamps_[0] + sizeof labels_[0]);
  }
  uint64_t FramedBytes(const RecordRef& ref) const override { return ref.length; }
  absl::StatusOr<std::string_view> Unframe(const RecordRef& ref,
                                           std::span<const std::byte> framed) const override {
    const auto nothing = [](std::string_view*) { return std::string_view(); };
    if (ref.length == 0) return std::string_view("");
    return TrimFrame(files_[ref.shard], ref, framed, nothing);
  }
  uint64_t Fingerprint() const override { return fingerprint_; }

 private:
  // All constant after construction; an element for each image.
  const std::vector<std::string> files_;
  const std::vector<ShardStamp> stamps_;
  const std::vector<int64_t> labels_;
  const uint64_t fingerprint_;
};

// Adds an image to the fingerprint of those before it.
uint64_t AddImage(uint64_t fingerprint, const std::string& path, uint64_t size, int64_t label) {
  const std::array<uint64_t, 3> image = {XXH3_64bits(path.data(), path.size()), size,
                                         static_cast<uint64_t>(label)};
  return XXH3_64bits_withSeed(image.data(), sizeof image, fingerprint);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenImageRecords(const std::string& name,
                                                               const ImageRecordOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string folder, LocalPath(name));
  MILLRACE_ASSIGN_OR_RETURN(internal::ImageListing listing,
                            internal::ListImages(folder, options.labels.cancels));
  MILLRACE_ASSIGN_OR_RETURN(internal::PathLabels labels,
                            internal::LabelImages(listing, options.labels, folder));
  std::vector<std::string> files = std::move(listing.paths);
  std::vector<ShardStamp> stamps;
  stamps.reserve(files.size());
  uint64_t fingerprint = 0;
  for (std::string& file : files) {
    const std::string path = std::move(file);
    file = absl::StrCat(folder, folder.ends_with('/') ? "" : "/", path);
    MILLRACE_RETURN_IF_ERROR(internal::CheckListing(options.labels.cancels));
    MILLRACE_ASSIGN_OR_RETURN(const ShardStamp stamp, StampOf(file));
    if (stamp.file_size > options.max_record_bytes) {
      return DamagedRecord(file, RecordRef(), RecordErrorReason::kAbsurdLength,
                           absl::StrCat("a file of ", stamp.file_size, " bytes; the limit is ",
                                        options.max_record_bytes));
    }
    fingerprint = AddImage(fingerprint, path, stamp.file_size, labels.labels[stamps.size()]);
    stamps.push_back(stamp);
  }
  return std::make_unique<ImageRecords>(std::move(files), std::move(stamps),
                                        std::move(labels.labels), fingerprint);
}

}  // namespace millrace::readers
