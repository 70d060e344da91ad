#include "trainer/telemetry/event_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include "tests/messages.h"
#include "tests/temp_folder.h"
#include "tests/trainer/telemetry/events_of.h"

namespace millrace::trainer {
namespace {

constexpr std::array<Scalar, 2> kScalars = {{{"train/loss", 0.5}, {"train/learning_rate", 0.125}}};

TEST(EventWriterTest, OurReaderSeesEachEventOnceItIsWritten) {
  const TempFolder folder;
  const auto writer = EventWriter::Open(folder / "made/here", 41);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Write(50, kScalars).ok());
  const std::vector<events::Event> found = EventsOf((*writer)->path());
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].file_version(), "brain.Event:2");
  EXPECT_EQ(found[1].session_log().status(), events::SessionLog::START);
  EXPECT_EQ(found[1].step(), 41);
  EXPECT_EQ(found[2].step(), 50);
  EXPECT_GT(found[2].wall_time(), 1.7e9);
  ASSERT_EQ(found[2].summary().value_size(), 2);
  EXPECT_EQ(found[2].summary().value(0).tag(), "train/loss");
  EXPECT_EQ(found[2].summary().value(0).simple_value(), 0.5f);
  EXPECT_EQ(found[2].summary().value(1).simple_value(), 0.125f);
}

TEST(EventWriterTest, WritersOfOneFolderHaveFilesOfTheirOwn) {
  const TempFolder folder;
  const auto first = EventWriter::Open(folder.path(), 1);
  const auto second = EventWriter::Open(folder.path(), 1);
  ASSERT_TRUE(first.ok() && second.ok());
  const std::vector<std::string> files = EventFilesIn(folder.path());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0], (*first)->path());
  EXPECT_EQ(files[1], (*second)->path());
}

TEST(EventWriterTest, AFolderThatCannotBeMadeIsNamed) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_MESSAGE(EventWriter::Open(folder / "file/below", 1).status());
}

TEST(EventWriterTest, AFullDiskIsAnError) {
  const TempFolder folder;
  bool is_full = false;
  const auto writer =
      EventWriter::Open(folder.path(), 1, [&](int fd, const void* data, size_t size) -> ssize_t {
        if (!is_full) return ::write(fd, data, size);
        errno = ENOSPC;
        return -1;
      });
  ASSERT_TRUE(writer.ok()) << writer.status();
  is_full = true;
  EXPECT_EQ((*writer)->Write(1, kScalars).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace millrace::trainer
