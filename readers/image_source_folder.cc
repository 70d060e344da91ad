#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/image_labels_internal.h"
#include "readers/image_source.h"

namespace millrace::readers {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> ReadOpenFile(int fd, const std::string& path) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "fstat", path);
  if (info.st_size > internal::kMaxImageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", info.st_size, " bytes are too many for an image"));
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t n = read(fd, bytes.data() + have, bytes.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "read", path);
    if (n == 0) return absl::DataLossError(absl::StrCat(path, ": became shorter while read"));
    have += static_cast<size_t>(n);
  }
  return bytes;
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  absl::StatusOr<std::string> bytes = ReadOpenFile(fd, path);
  close(fd);
  return bytes;
}

absl::StatusOr<std::vector<std::string>> ListImages(const std::string& root) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::recursive_directory_iterator it(root, fs::directory_options::follow_directory_symlink, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::string path = it->path().lexically_relative(root).generic_string();
    if (!internal::IsImagePath(path)) continue;
    std::error_code ignored;  // a file that cannot be looked at fails with its name when read
    if (!it->is_directory(ignored)) paths.push_back(std::move(path));
  }
  if (error) return ErrnoStatus(error.value(), "list", root);
  std::ranges::sort(paths);
  return paths;
}

class FolderSource final : public ImageSource {
 public:
  FolderSource(std::string root, std::vector<std::string> paths, internal::PathLabels labels)
      : root_(std::move(root)), paths_(std::move(paths)), labels_(std::move(labels)) {}

  uint64_t num_images() const override { return paths_.size(); }
  const std::vector<std::string>& class_names() const override { return labels_.class_names; }

  absl::StatusOr<SourceImage> Read(uint64_t index) override {
    MILLRACE_ASSIGN_OR_RETURN(std::string bytes, ReadWholeFile(root_ + "/" + paths_[index]));
    auto image = internal::MakeSourceImage(std::move(bytes), paths_[index], labels_, index);
    if (!image.ok()) return Annotate(image.status(), root_);
    return image;
  }

 private:
  const std::string root_;
  const std::vector<std::string> paths_;
  const internal::PathLabels labels_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageSource>> OpenImageFolder(const std::string& path,
                                                             const ImageLabelOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> paths, ListImages(path));
  MILLRACE_ASSIGN_OR_RETURN(internal::PathLabels labels,
                            internal::LabelPaths(paths, options, path));
  return std::make_unique<FolderSource>(path, std::move(paths), std::move(labels));
}

}  // namespace millrace::readers
