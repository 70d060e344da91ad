#include "cli/doctor/disk_rate.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/messages.h"
#include "tests/temp_folder.h"

namespace millrace::cli::doctor {
namespace {

using ::testing::ElementsAre;

using TimePoint = std::chrono::steady_clock::time_point;

// A clock that stands still: no time is ever over.
TimePoint StandingNow() { return TimePoint(); }

void WriteBytes(const std::string& path, size_t bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << std::string(bytes, 'x');
}

TEST(DataFilesOfTest, AFolderStandsForAllFilesBelowIt) {
  const TempFolder folder;
  WriteBytes(folder / "b", 1);
  WriteBytes(folder / "a/c", 1);
  const auto files = DataFilesOf(folder.path());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, ElementsAre(folder / "a/c", folder / "b"));
}

TEST(DataFilesOfTest, APatternStandsForItsFiles) {
  const TempFolder folder;
  WriteBytes(folder / "train-0.tfrecord", 1);
  WriteBytes(folder / "test-0.tfrecord", 1);
  const auto files = DataFilesOf(folder / "train*");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, ElementsAre(folder / "train-0.tfrecord"));
}

TEST(DataFilesOfTest, NothingToReadIsAnError) {
  const TempFolder folder;
  EXPECT_MESSAGE(DataFilesOf(folder.path()).status(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(DataFilesOf("https://host/a.tar").status(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(DataFilesOf(folder / "none").status(), absl::StatusCode::kNotFound);
}

// Each thread has a stretch of its own, which may begin and end inside of a file. With O_DIRECT its
// first page is read whole.
TEST(MeasureDiskRateTest, WithoutAnEndOfTheTimeAllIsRead) {
  const TempFolder folder;
  WriteBytes(folder / "a", 5 << 20);
  WriteBytes(folder / "b", 1);
  WriteBytes(folder / "c", 0);
  WriteBytes(folder / "d", 3 << 20);
  constexpr uint64_t kBytes = (8 << 20) + 1;
  const DiskRate rate =
      MeasureDiskRate(folder.path(), {.seconds = 1, .threads = 3, .now = &StandingNow});
  EXPECT_EQ(rate.error, "");
  EXPECT_EQ(rate.num_files, 4U);
  EXPECT_EQ(rate.file_bytes, kBytes);
  EXPECT_GE(rate.read_bytes, kBytes);
  EXPECT_EQ(rate.bytes_per_second(), 0);  // no time has passed
}

TEST(MeasureDiskRateTest, FilesInMemoryAreToldApart) {
  if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "no /dev/shm";
  const std::string file = "/dev/shm/millrace-doctor-test-" + std::to_string(::getpid());
  WriteBytes(file, 1 << 20);
  const DiskRate rate = MeasureDiskRate(file, {.seconds = 1, .threads = 2, .now = &StandingNow});
  std::filesystem::remove(file);
  EXPECT_EQ(rate.error, "");
  EXPECT_EQ(rate.bypass, Bypass::kMemory);
}

TEST(MeasureDiskRateTest, AnErrorIsTold) {
  const DiskRate rate = MeasureDiskRate("/no/such/file", {});
  EXPECT_EQ(rate.path, "/no/such/file");
  EXPECT_NE(rate.error, "");
}

}  // namespace
}  // namespace millrace::cli::doctor
