#ifndef MILLRACE_READERS_FILE_WORK_FOLDER_H_
#define MILLRACE_READERS_FILE_WORK_FOLDER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

// The folder in which a set of shards is written before it appears.

namespace millrace::readers {

// A hidden folder that goes away with its contents. While it is in use it is locked.
class WorkFolder {
 public:
  // Ends its name; mkdtemp fills it in.
  static constexpr std::string_view kMark = "XXXXXX";
  // A folder in it: the shards that were taken away.
  static constexpr std::string_view kReplaced = "replaced";

  // Makes a new one for a job; `stem` begins its name.
  static absl::StatusOr<std::unique_ptr<WorkFolder>> Make(const std::filesystem::path& stem,
                                                          uint64_t job);
  // Takes over one that a killed process has left, if it did this job and had not replaced
  // anything. Null: it did not, or is in use.
  static std::unique_ptr<WorkFolder> TakeOver(const std::filesystem::path& path, uint64_t job);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  void Keep() { kept_ = true; }
  const std::filesystem::path& path() const { return path_; }

 private:
  WorkFolder(std::filesystem::path path, UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  // Null, with errno set: it is not there, or another process has it.
  static std::unique_ptr<WorkFolder> Lock(const std::string& path);

  const std::filesystem::path path_;
  const UniqueFd lock_;
  bool kept_ = false;  // true if the destructor leaves the folder
};

// Writes a small file at once, or not at all.
absl::Status WriteWhole(const std::filesystem::path& path, std::string_view text);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FILE_WORK_FOLDER_H_
