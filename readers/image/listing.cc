#include "readers/image/listing.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "readers/image_header.h"

// A file may be an image that is not read: of another kind, or without a name that says so. Such
// files are told, so that a data set is never smaller than its owner thinks. Their names tell of
// nearly all; only files with an ending that says nothing are opened.

namespace millrace::readers::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> kMadeBySystems = {
    "@eaDir", "__MACOSX", "#recycle", "$RECYCLE.BIN", "lost+found", "System Volume Information"};
constexpr std::array<std::string_view, 5> kRead = {"jpg", "jpeg", "jpe", "jfif", "png"};
constexpr std::array<std::string_view, 32> kNotRead = {
    "webp", "bmp", "dib", "tif", "tiff", "gif", "heic", "heif", "avif", "jxl", "jp2",
    "j2k",  "jpx", "ppm", "pgm", "pbm",  "pnm", "tga",  "ico",  "svg",  "psd", "exr",
    "hdr",  "cr2", "cr3", "nef", "arw",  "dng", "orf",  "rw2",  "raf",  "apng"};
// Files that often lie beside images, by the million.
constexpr std::array<std::string_view, 24> kOther = {
    "txt", "xml", "json", "jsonl", "csv", "tsv", "md",  "html", "htm", "yaml", "yml", "toml",
    "npy", "npz", "mat",  "pkl",   "h5",  "db",  "ini", "log",  "py",  "sh",   "gz",  "zip"};

template <size_t kSize>
bool Has(const std::array<std::string_view, kSize>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

class FolderWalk {
 public:
  FolderWalk(std::string root, const Cancels& cancels)
      : root_(std::move(root)), cancels_(cancels) {}

  absl::StatusOr<ImageListing> Run() {
    MILLRACE_RETURN_IF_ERROR(Enter(""));
    std::ranges::sort(listing_.paths);
    std::ranges::sort(listing_.folders);
    std::ranges::sort(listing_.left_out);
    return std::move(listing_);
  }

 private:
  struct Folder {
    dev_t device = 0;
    ino_t inode = 0;
    std::string path;
  };

  std::string Full(const std::string& path) const {
    return path.empty() ? root_ : PathIn(root_, path);
  }

  // Goes through the folder first and below it then: no more than one is open at any time.
  absl::Status Enter(const std::string& path) {
    Folder self{.path = Full(path)};
    MILLRACE_RETURN_IF_ERROR(Identify(self));
    std::error_code error;
    std::vector<std::string> folders;
    fs::directory_iterator it(self.path, error);
    for (; !error && it != fs::directory_iterator(); it.increment(error)) {
      std::string name = it->path().filename().string();
      MILLRACE_RETURN_IF_ERROR(CheckListing(cancels_));
      if (IsHiddenName(name)) continue;
      MILLRACE_RETURN_IF_ERROR(Take(*it, path.empty() ? name : path + "/" + name, &folders));
    }
    if (error) return ErrnoStatus(error.value(), "list", self.path);
    std::ranges::sort(folders);  // of several loops the first is told
    above_.push_back(std::move(self));
    for (const std::string& folder : folders) MILLRACE_RETURN_IF_ERROR(Enter(folder));
    above_.pop_back();
    return absl::OkStatus();
  }

  absl::Status Identify(Folder& folder) const {
    struct stat facts;
    if (::stat(folder.path.c_str(), &facts) != 0) return ErrnoStatus(errno, "stat", folder.path);
    folder.device = facts.st_dev;
    folder.inode = facts.st_ino;
    const auto same = std::ranges::find_if(above_, [&](const Folder& other) {
      return other.device == folder.device && other.inode == folder.inode;
    });
    if (same == above_.end()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(folder.path, ": a loop: the link leads to ", same->path,
                     ", a folder above it, so there is no end of what lies below"));
  }

  absl::Status Take(const fs::directory_entry& entry, std::string path,
                    std::vector<std::string>* folders) {
    std::error_code error;
    const bool is_link = entry.is_symlink(error);
    if (is_link) {
      const fs::file_status target = entry.status(error);
      if (target.type() == fs::file_type::not_found) return TakeDangling(std::move(path));
      if (error) return ErrnoStatus(error.value(), "follow", entry.path().string());
    }
    if (entry.is_directory(error)) {
      if (above_.empty()) listing_.folders.push_back(path);
      folders->push_back(std::move(path));
      return absl::OkStatus();
    }
    switch (KindOfName(path)) {
      case ImageName::kRead:
        listing_.paths.push_back(std::move(path));
        break;
      case ImageName::kNotRead:
        listing_.left_out.push_back(std::move(path));
        break;
      case ImageName::kUnknown:
        if (entry.is_regular_file(error)) TakeUnknown(std::move(path));
        break;
      case ImageName::kOther:
        break;
    }
    return absl::OkStatus();
  }

  // A file that cannot be read may be an image.
  void TakeUnknown(std::string path) {
    const UniqueFd fd(::open(Full(path).c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, kTellingBytes> bytes;
    const ssize_t got = fd.valid() ? ::read(fd.get(), bytes.data(), bytes.size()) : -1;
    if (got < 0) {
      const std::string why = std::generic_category().message(errno);
      listing_.left_out.push_back(absl::StrCat(path, " (", why, ")"));
    } else if (!GuessImageFormat({bytes.data(), static_cast<size_t>(got)}).empty()) {
      listing_.left_out.push_back(std::move(path));
    }
  }

  // An image fails under its name when it is read.
  absl::Status TakeDangling(std::string path) {
    if (KindOfName(path) == ImageName::kRead) {
      listing_.paths.push_back(std::move(path));
    } else if (above_.empty()) {
      return absl::NotFoundError(
          absl::StrCat(Full(path), ": the link leads to nothing; is it a class?"));
    } else {
      listing_.left_out.push_back(path + " (a link to nothing)");
    }
    return absl::OkStatus();
  }

  const std::string root_;
  const Cancels& cancels_;
  std::vector<Folder> above_;  // the one that is being read
  ImageListing listing_;
};

}  // namespace

bool IsHiddenName(std::string_view name) {
  return name.starts_with('.') || Has(kMadeBySystems, name);
}

bool IsHiddenPath(std::string_view path) {
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (IsHiddenName(path.substr(0, end))) return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

ImageName KindOfName(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const size_t dot = name.rfind('.');
  const std::string_view ending = dot == name.npos ? std::string_view() : name.substr(dot + 1);
  const std::string lower = absl::AsciiStrToLower(ToAbsl(ending));
  if (Has(kRead, lower)) return ImageName::kRead;
  if (Has(kNotRead, lower)) return ImageName::kNotRead;
  return Has(kOther, lower) ? ImageName::kOther : ImageName::kUnknown;
}

bool IsImagePath(std::string_view path) {
  return KindOfName(path) == ImageName::kRead && !IsHiddenPath(path);
}

absl::StatusOr<ImageListing> ListImages(const std::string& root, const Cancels& cancels) {
  return FolderWalk(root, cancels).Run();
}

absl::Status CheckListing(const Cancels& cancels) {
  return CheckGoesOn(cancels, "listing the images was cancelled");
}

std::string PathIn(const std::string& folder, const std::string& name) {
  return absl::StrCat(folder, folder.ends_with('/') ? "" : "/", name);
}

std::string FirstNames(const std::vector<std::string>& names) {
  constexpr size_t kMost = 10;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kMost) absl::StrAppend(&text, " and ", names.size() - kMost, " more");
  return text;
}

}  // namespace millrace::readers::internal
