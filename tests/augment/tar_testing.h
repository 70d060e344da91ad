#ifndef MILLRACE_TESTS_AUGMENT_TAR_TESTING_H_
#define MILLRACE_TESTS_AUGMENT_TAR_TESTING_H_

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace millrace::augment::testing {

// The files of an archive (tar, tar.xz) that are not empty, in its order; none where there is no such
// archive.
inline std::vector<std::string> ReadTar(const std::string& path) {
  const std::unique_ptr<archive, int (*)(archive*)> tar(archive_read_new(), archive_read_free);
  archive_read_support_format_tar(tar.get());
  archive_read_support_filter_xz(tar.get());
  std::vector<std::string> files;
  if (archive_read_open_filename(tar.get(), path.c_str(), 1 << 20) != ARCHIVE_OK) return files;
  archive_entry* entry = nullptr;
  while (archive_read_next_header(tar.get(), &entry) == ARCHIVE_OK) {
    std::string bytes(static_cast<size_t>(archive_entry_size(entry)), '\0');
    if (bytes.empty()) continue;
    EXPECT_EQ(archive_read_data(tar.get(), bytes.data(), bytes.size()),
              static_cast<la_ssize_t>(bytes.size()));
    files.push_back(std::move(bytes));
  }
  return files;
}

}  // namespace millrace::augment::testing

#endif  // MILLRACE_TESTS_AUGMENT_TAR_TESTING_H_
