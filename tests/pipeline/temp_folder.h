#ifndef MILLRACE_TESTS_PIPELINE_TEMP_FOLDER_H_
#define MILLRACE_TESTS_PIPELINE_TEMP_FOLDER_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace millrace::pipeline {

// An empty folder of its own, which goes with all that is in it.
class TempFolder {
 public:
  explicit TempFolder(std::string_view name) {
    std::string path =
        (std::filesystem::temp_directory_path() / "millrace-").string() + std::string(name);
    path += "-XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string File(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_TEMP_FOLDER_H_
