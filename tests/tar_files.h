#ifndef MILLRACE_TESTS_TAR_FILES_H_
#define MILLRACE_TESTS_TAR_FILES_H_

#include <archive.h>
#include <archive_entry.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The images that tests and benches work on lie in archives. They are read by libarchive, which
// knows nothing of the project's own readers.

namespace millrace {

struct TarFile {
  std::string name;
  std::string bytes;
};

// The files of an archive (tar, tar.xz) that are not empty, in its order; nullopt where it cannot
// be opened or not all of it be read.
inline std::optional<std::vector<TarFile>> ReadTarFiles(const std::string& path) {
  const std::unique_ptr<archive, int (*)(archive*)> tar(archive_read_new(), archive_read_free);
  archive_read_support_format_tar(tar.get());
  archive_read_support_filter_xz(tar.get());
  if (archive_read_open_filename(tar.get(), path.c_str(), 1 << 20) != ARCHIVE_OK) {
    return std::nullopt;
  }
  std::vector<TarFile> files;
  archive_entry* entry = nullptr;
  int result = ARCHIVE_OK;
  while ((result = archive_read_next_header(tar.get(), &entry)) == ARCHIVE_OK) {
    std::string bytes(static_cast<size_t>(archive_entry_size(entry)), '\0');
    if (bytes.empty()) continue;
    const la_ssize_t read = archive_read_data(tar.get(), bytes.data(), bytes.size());
    if (read != static_cast<la_ssize_t>(bytes.size())) return std::nullopt;
    files.push_back({archive_entry_pathname(entry), std::move(bytes)});
  }
  if (result != ARCHIVE_EOF) return std::nullopt;
  return files;
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_TAR_FILES_H_
