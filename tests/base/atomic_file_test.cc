#include "base/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "tests/messages.h"
#include "tests/temp_files.h"

namespace {

// How many renames found their source unlocked.
std::atomic<int> unlocked_renames = 0;

void LookAtLock(const char* from) {
  const millrace::UniqueFd fd(::open(from, O_RDONLY | O_CLOEXEC));
  if (!fd.valid() || millrace::TakeUseLock(fd.get())) ++unlocked_renames;
}

}  // namespace

// These stand before the C library's in this program.
extern "C" int rename(const char* from, const char* to) noexcept {
  LookAtLock(from);
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}

extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned int flags) noexcept {
  LookAtLock(from);
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

namespace millrace {
namespace {

absl::Status WriteAtOnce(const std::string& path, std::string_view bytes, bool sync,
                         Existing existing) {
  auto file = AtomicFile::Create(path);
  if (!file.ok()) return file.status();
  const absl::Status written = (*file)->Append(std::as_bytes(std::span(bytes)));
  return written.ok() ? (*file)->Commit(sync, existing) : written;
}

TEST(AtomicFileTest, IsInUseUntilItIsInPlace) {
  const TempFolder folder;
  unlocked_renames = 0;
  for (const bool sync : {false, true}) {
    const std::string path = folder / (sync ? "synced" : "not");
    EXPECT_TRUE(WriteAtOnce(path, "old", sync, Existing::kKeep).ok());
    EXPECT_TRUE(WriteAtOnce(path, "new", sync, Existing::kReplace).ok());
    EXPECT_EQ(ReadFile(path), "new");
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(TakeUseLock(fd.get())) << "nobody writes it any more";
  }
  EXPECT_EQ(unlocked_renames, 0);
}

TEST(AtomicFileTest, WhatCannotBeMadeIsNamedAsTheUserDid) {
  const TempFolder folder;
  WriteFile(folder / "file", "");
  EXPECT_MESSAGE(AtomicFile::Create(folder / "no/x.html"), absl::StatusCode::kNotFound);
  EXPECT_MESSAGE(AtomicFile::Create(folder / "file/x.html"));
}

TEST(AtomicFileTest, WhatIsInTheWayStaysAndNothingElse) {
  const TempFolder folder;
  WriteFile(folder / "f", "old");
  EXPECT_EQ(WriteAtOnce(folder / "f", "new", false, Existing::kKeep).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadFile(folder / "f"), "old");
  const std::filesystem::directory_iterator entries(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(AtomicFileTest, ACleanerNeverTakesAFileThatIsBeingWritten) {
  const TempFolder folder;
  std::atomic<bool> done = false;
  std::thread cleaner([&] {
    while (!done) {
      std::error_code gone;  // what is listed may be renamed before it is looked at
      for (const auto& entry : std::filesystem::directory_iterator(folder.path(), gone)) {
        const std::string name = entry.path().filename();
        if (!AtomicFile::TemporaryOf(name).empty()) RemoveIfAbandoned(entry.path());
      }
    }
  });
  for (int i = 0; i < 500; ++i) {
    const absl::Status status = WriteAtOnce(folder / "f", "x", false, Existing::kReplace);
    EXPECT_TRUE(status.ok()) << status;
  }
  done = true;
  cleaner.join();
  EXPECT_EQ(ReadFile(folder / "f"), "x");
}

}  // namespace
}  // namespace millrace
