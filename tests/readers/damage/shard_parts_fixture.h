#ifndef MILLRACE_TESTS_READERS_DAMAGE_SHARD_PARTS_FIXTURE_H_
#define MILLRACE_TESTS_READERS_DAMAGE_SHARD_PARTS_FIXTURE_H_

#include <archive.h>
#include <archive_entry.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "readers/repair.h"
#include "readers/verify.h"
#include "tests/readers/container/container_fixture.h"

namespace millrace::readers {

using Named = std::vector<std::pair<std::string, std::string>>;

inline std::string Tar(const Named& files) {
  std::string bytes(4 << 20, '\0');
  size_t used = 0;
  archive* const tar = archive_write_new();
  EXPECT_EQ(archive_write_set_format_ustar(tar), ARCHIVE_OK);
  EXPECT_EQ(archive_write_open_memory(tar, bytes.data(), bytes.size(), &used), ARCHIVE_OK);
  for (const auto& [name, content] : files) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    EXPECT_EQ(archive_write_header(tar, entry), ARCHIVE_OK);
    archive_write_data(tar, content.data(), content.size());
    archive_entry_free(entry);
  }
  EXPECT_EQ(archive_write_close(tar), ARCHIVE_OK);
  archive_write_free(tar);
  bytes.resize(used);
  return bytes;
}

inline Named Untar(const std::string& bytes) {
  archive* const tar = archive_read_new();
  archive_read_support_format_tar(tar);
  EXPECT_EQ(archive_read_open_memory(tar, bytes.data(), bytes.size()), ARCHIVE_OK);
  Named files;
  archive_entry* entry = nullptr;
  while (archive_read_next_header(tar, &entry) == ARCHIVE_OK) {
    std::string content(static_cast<size_t>(archive_entry_size(entry)), '\0');
    EXPECT_EQ(archive_read_data(tar, content.data(), content.size()),
              static_cast<la_ssize_t>(content.size()));
    files.emplace_back(archive_entry_pathname(entry), std::move(content));
  }
  archive_read_free(tar);
  return files;
}

class ShardPartsTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static std::string Contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static VerifyReport Check(const std::string& path, const VerifyOptions& options = {}) {
    const auto report = Verify(std::vector<std::string>{path}, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(VerifyReport());
  }
  // The repaired bytes.
  absl::StatusOr<std::string> Repaired(const std::string& path, const RepairOptions& options = {}) {
    const std::string out = folder_ / ("out" + std::to_string(++num_repairs_));
    const auto repaired = Repair(std::vector<std::string>{path}, out, options);
    if (!repaired.ok()) return repaired.status();
    return Contents(repaired->front().out);
  }

  static RepairOptions Of(const ContainerOptions& container) {
    RepairOptions options;
    options.container = container;
    return options;
  }

  const TempFolder folder_;
  int num_repairs_ = 0;
};

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_DAMAGE_SHARD_PARTS_FIXTURE_H_
