#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/container/record_index.h"
#include "readers/foreign_kind.h"
#include "readers/image/labels.h"
#include "readers/image/libarchive.h"
#include "readers/image/listing.h"
#include "readers/image/tar_end.h"
#include "readers/image_header.h"
#include "readers/image_source.h"
#include "readers/open_file.h"
#include "readers/shard_stamp.h"
#include "xxhash.h"

namespace millrace::readers {
namespace {

constexpr size_t kTarReadBytes = size_t{1} << 20;

// Bytes that tell the kind of a file; "" where it cannot be read.
std::string FirstBytes(const std::string& path) {
  std::string bytes(internal::kTellingBytes, '\0');
  const auto file = OpenFile(path);
  const auto got = file.ok() ? (*file)->ReadAt(0, std::as_writable_bytes(std::span(bytes)))
                             : absl::StatusOr<size_t>(size_t{0});
  bytes.resize(got.value_or(0));
  return bytes;
}

// Walks the entries of one tar. Thread-compatible.
class TarReader {
 public:
  static absl::StatusOr<std::unique_ptr<TarReader>> Open(const std::string& path) {
    MILLRACE_ASSIGN_OR_RETURN(const internal::Libarchive* const lib, internal::SystemLibarchive());
    auto reader = std::unique_ptr<TarReader>(new TarReader(path, *lib));
    archive* const tar = reader->archive_.get();
    if (tar == nullptr) return absl::ResourceExhaustedError("libarchive: no memory");
    if (lib->read_support_format_tar(tar) != ARCHIVE_OK ||
        lib->read_support_filter_gzip(tar) != ARCHIVE_OK ||
        lib->read_support_filter_bzip2(tar) != ARCHIVE_OK ||
        lib->read_support_filter_xz(tar) != ARCHIVE_OK) {
      return absl::InternalError(absl::StrCat("libarchive: ", reader->Message()));
    }
    if (lib->read_open_filename(tar, path.c_str(), kTarReadBytes) != ARCHIVE_OK) {
      return reader->Failed("open");
    }
    return reader;
  }

  // Goes on to the next entry that is not hidden; false at the end, which is checked.
  absl::StatusOr<bool> Next() {
    do {
      if (entry_ != nullptr && lib_.read_data_skip(archive_.get()) < ARCHIVE_WARN) {
        return Failed("read");
      }
      const auto end = static_cast<uint64_t>(lib_.filter_bytes(archive_.get(), 0));
      const int code = lib_.read_next_header(archive_.get(), &entry_);
      if (code == ARCHIVE_EOF) {
        MILLRACE_RETURN_IF_ERROR(internal::CheckTarEnd(lib_, path_, end));
        return false;
      }
      if (code != ARCHIVE_OK && code != ARCHIVE_WARN) return Failed("read");
      const char* name = lib_.entry_pathname(entry_);
      if (name == nullptr) name = lib_.entry_pathname_utf8(entry_);
      if (name == nullptr) return Failed("read");
      name_ = name;
      while (name_.starts_with("./")) name_.erase(0, 2);
    } while (name_.empty() || internal::IsHiddenPath(name_));  // empty: the root, "./"
    return true;
  }
  // The same to the next image.
  absl::StatusOr<bool> NextImage() {
    for (;;) {
      MILLRACE_ASSIGN_OR_RETURN(const bool more, Next());
      if (!more || is_image()) return more;
    }
  }

  const std::string& name() const { return name_; }
  int64_t size() const { return lib_.entry_size(entry_); }
  int64_t offset() const { return lib_.read_header_position(archive_.get()); }
  bool is_folder() const { return lib_.entry_filetype(entry_) == AE_IFDIR; }
  bool is_file() const { return lib_.entry_filetype(entry_) == AE_IFREG; }
  bool is_image() const {
    return is_file() && internal::KindOfName(name_) == internal::ImageName::kRead;
  }

  // True for an image that ReadData refuses.
  bool is_too_large() const { return size() > internal::kMaxImageBytes; }

  // True if the current entry is an image that is not read. Its bytes may be read then.
  bool IsLeftOut() {
    const internal::ImageName kind = internal::KindOfName(name_);
    if (!is_file() || kind != internal::ImageName::kUnknown) {
      return is_file() && kind == internal::ImageName::kNotRead;
    }
    std::array<char, internal::kTellingBytes> first;
    const la_ssize_t got = lib_.read_data(archive_.get(), first.data(), first.size());
    return got > 0 && !GuessImageFormat({first.data(), static_cast<size_t>(got)}).empty();
  }

  // Reads the current image; memory follows the bytes that are there, not what the header says.
  absl::StatusOr<std::string> ReadData() {
    if (is_too_large()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": ", name_, ": ", size(), " bytes are too many for an image"));
    }
    std::string bytes;
    for (;;) {
      const size_t before = bytes.size();
      bytes.resize(before + std::min(kTarReadBytes, static_cast<size_t>(size()) - before + 1));
      const la_ssize_t n =
          lib_.read_data(archive_.get(), bytes.data() + before, bytes.size() - before);
      bytes.resize(before + static_cast<size_t>(std::max<la_ssize_t>(n, 0)));
      if (n < 0) return Annotate(Failed("read"), name_);
      if (n == 0) return bytes;
    }
  }

 private:
  TarReader(std::string path, const internal::Libarchive& lib)
      : path_(std::move(path)), lib_(lib), archive_(lib.read_new(), lib.read_free) {}

  std::string Message() const {
    const char* const message = lib_.error_string(archive_.get());
    return message == nullptr ? "unknown error" : message;
  }
  // The system's error for the file, or else damage. libarchive has numbers of its own: EILSEQ of
  // another format, EINVAL of a wrong call.
  absl::Status Failed(std::string_view call) const {
    const int error_number = lib_.error_number(archive_.get());
    if (error_number > 0 && error_number != EILSEQ && error_number != EINVAL) {
      return ErrnoStatus(error_number, call, path_);
    }
    return absl::DataLossError(absl::StrCat(
        path_, ": not a tar, or damaged, near byte ", lib_.filter_bytes(archive_.get(), 0),
        name_.empty() ? ButForeign(FirstBytes(path_)) : absl::StrCat(", behind ", name_), ": ",
        Message()));
  }

  const std::string path_;
  const internal::Libarchive& lib_;  // stays until the process ends
  const std::unique_ptr<archive, decltype(internal::Libarchive::read_free)> archive_;
  archive_entry* entry_ = nullptr;  // owned by archive_
  std::string name_;
};

// An image in the archive.
struct TarImage {
  std::string name;
  uint64_t size = 0;
  int64_t offset = 0;  // of its first header, in the inflated archive
};

class TarSource final : public ImageSource {
 public:
  TarSource(std::string path, std::vector<TarImage> images, internal::PathLabels labels)
      : path_(std::move(path)), images_(std::move(images)), labels_(std::move(labels)) {}

  uint64_t num_images() const override { return images_.size(); }
  const std::vector<std::string>& class_names() const override { return labels_.class_names; }
  uint64_t Fingerprint() const override {
    const auto stamp = StampOf(path_).value_or(ShardStamp());  // Read says what is wrong
    const std::string text = absl::StrCat(stamp.file_size, " ", stamp.mtime_ns);
    return XXH3_64bits(text.data(), text.size());
  }
  uint64_t ImageBytes(uint64_t index) const override { return images_[index].size; }
  int64_t LabelOf(uint64_t index) const override { return labels_.labels[index]; }
  RecordError PlaceOf(uint64_t index) const override {
    RecordError place;
    place.file = path_;
    place.offset = images_[index].offset;
    place.ordinal = static_cast<int64_t>(index);
    return place;
  }
  uint64_t num_not_read() const override { return labels_.num_not_read; }

  absl::StatusOr<SourceImage> Read(uint64_t index) override {
    absl::StatusOr<std::string> bytes = loaded_.empty() ? Stream(index) : loaded_[index];
    if (absl::IsInvalidArgument(bytes.status())) {
      absl::Status status = bytes.status();
      SetRecordError(status, PlaceOf(index));
      return status;
    }
    if (!bytes.ok()) return bytes.status();
    auto image = internal::MakeSourceImage(*std::move(bytes), images_[index].name, labels_, index);
    if (!image.ok()) return Annotate(image.status(), path_);
    return image;
  }

  // An error that Read gives a RecordError is kept for it.
  absl::Status LoadAll(const Cancels& cancels) {
    std::vector<absl::StatusOr<std::string>> images;
    for (uint64_t i = 0; i < num_images(); ++i) {
      MILLRACE_RETURN_IF_ERROR(internal::CheckListing(cancels));
      absl::StatusOr<std::string> bytes = Stream(i);
      if (!bytes.ok() && !absl::IsInvalidArgument(bytes.status())) return bytes.status();
      images.push_back(std::move(bytes));
    }
    loaded_ = std::move(images);
    reader_.reset();
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::string> Stream(uint64_t index) {
    if (index < next_) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": a tar is read forward only; image ", index, " has passed"));
    }
    if (reader_ == nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(reader_, TarReader::Open(path_));
    }
    for (; next_ <= index; ++next_) {
      MILLRACE_ASSIGN_OR_RETURN(const bool more, reader_->NextImage());
      if (!more || reader_->name() != images_[next_].name) {
        return absl::AbortedError(absl::StrCat(path_, ": changed while it was read"));
      }
    }
    return reader_->ReadData();
  }

  const std::string path_;
  const std::vector<TarImage> images_;
  const internal::PathLabels labels_;
  std::vector<absl::StatusOr<std::string>> loaded_;  // of all images; empty: they are streamed
  std::unique_ptr<TarReader> reader_;
  uint64_t next_ = 0;  // the entry that reader_ comes to next
};

// The folder that a path lies in, with its slash; "" for none.
std::string_view FolderOf(std::string_view path) { return path.substr(0, path.rfind('/') + 1); }

// The folder above a folder, both with their slash.
std::string_view AboveOf(std::string_view folder) {
  return FolderOf(folder.substr(0, folder.size() - 1));
}

// Collects what is in a tar.
class TarListing {
 public:
  void Add(TarReader& reader) {
    const std::string& name = reader.name();
    if (!reader.is_folder() && !reader.is_file()) return;
    AddFolders(reader.is_folder() && !name.ends_with('/') ? name + "/" : name);
    if (reader.is_image()) {
      listing_.paths.push_back(name);
    } else if (reader.IsLeftOut()) {
      listing_.left_out.push_back(name);
    }
  }

  // The listing below the folder that is the root of the classes.
  internal::ImageListing Finish(const ImageLabelOptions& options) && {
    std::ranges::sort(listing_.left_out);
    if (listing_.paths.empty()) return std::move(listing_);
    const std::string root = Root(options);
    for (std::string& path : listing_.paths) path.erase(0, root.size());
    for (const std::string& folder : folders_) {
      if (folder.starts_with(root) && AboveOf(folder) == root) {
        listing_.folders.push_back(folder.substr(root.size(), folder.size() - root.size() - 1));
      }
    }
    return std::move(listing_);
  }

 private:
  // All folders that lead to `path`, each with its slash.
  void AddFolders(std::string_view path) {
    for (std::string_view folder = FolderOf(path); !folder.empty(); folder = AboveOf(folder)) {
      if (!folders_.insert(std::string(folder)).second) return;
    }
  }

  // The folder that all images share; but if that is the only class with images, the one above.
  std::string Root(const ImageLabelOptions& options) const {
    std::string common(FolderOf(listing_.paths[0]));
    for (const std::string& path : listing_.paths) {
      while (!path.starts_with(common)) common.resize(AboveOf(common).size());
    }
    if (common.empty() || options.label.has_value()) return common;
    std::vector<std::string> inside;
    for (const std::string& path : listing_.paths) inside.push_back(path.substr(common.size()));
    const bool lie_inside = std::ranges::all_of(
        inside, [](const std::string& path) { return path.find('/') == std::string::npos; });
    const std::string_view above = AboveOf(common);
    const std::string_view own(common.data() + above.size(), common.size() - above.size() - 1);
    const std::string_view named = internal::ClassOf(inside[0]);
    return lie_inside && (named.empty() || named == own) && HasSibling(common, above)
               ? std::string(above)
               : common;
  }

  bool HasSibling(std::string_view folder, std::string_view above) const {
    return std::ranges::any_of(folders_, [&](std::string_view other) {
      return other != folder && other.starts_with(above) && other != above &&
             AboveOf(other) == above;
    });
  }

  internal::ImageListing listing_;
  std::set<std::string> folders_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageSource>> OpenImageTar(const std::string& path,
                                                          const ImageTarOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<TarReader> reader, TarReader::Open(path));
  TarListing entries;
  std::vector<TarImage> images;
  int64_t bytes = 0;
  for (;;) {
    MILLRACE_ASSIGN_OR_RETURN(const bool more, reader->Next());
    if (!more) break;
    MILLRACE_RETURN_IF_ERROR(internal::CheckListing(options.labels.cancels));
    entries.Add(*reader);
    if (!reader->is_image()) continue;
    const int64_t size = std::clamp<int64_t>(reader->size(), 0, internal::kMaxImageBytes);
    images.push_back({reader->name(), static_cast<uint64_t>(size), reader->offset()});
    if (!reader->is_too_large()) bytes += size;
  }
  MILLRACE_ASSIGN_OR_RETURN(
      internal::PathLabels labels,
      internal::LabelImages(std::move(entries).Finish(options.labels), options.labels, path));
  if (options.random_access && bytes > options.max_memory_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        path, ": its images take ", bytes, " bytes, more than the ", options.max_memory_bytes,
        " allowed for reading a tar in another order; extract it, or keep its order"));
  }
  auto source = std::make_unique<TarSource>(path, std::move(images), std::move(labels));
  if (options.random_access) {
    MILLRACE_RETURN_IF_ERROR(source->LoadAll(options.labels.cancels));
  }
  return source;
}

}  // namespace millrace::readers
