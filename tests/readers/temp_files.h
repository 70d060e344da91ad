#ifndef MILLRACE_TESTS_READERS_TEMP_FILES_H_
#define MILLRACE_TESTS_READERS_TEMP_FILES_H_

#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

namespace millrace::readers {

// A new folder that is removed with everything in it.
class TempFolder {
 public:
  TempFolder() {
    std::string name = testing::TempDir() + "/millrace-readers-XXXXXX";
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

// Makes the folders that it needs.
inline void WriteFile(const std::string& path, std::string_view bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(out.good()) << path;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_TEMP_FILES_H_
