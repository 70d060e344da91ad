#ifndef MILLRACE_TESTS_TEMP_FOLDER_H_
#define MILLRACE_TESTS_TEMP_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace millrace {

// A new folder that is removed with everything in it.
class TempFolder {
 public:
  TempFolder() {
    std::string name = testing::TempDir() + "/millrace-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_TEMP_FOLDER_H_
