#include "readers/record_writer.h"

#include <sys/stat.h>

#include <cerrno>

#include "readers/record_reader.h"
#include "readers/write/record_writer.h"
#include "tests/messages.h"
#include "tests/readers/record_test_util.h"

namespace millrace::readers {
namespace {

size_t NumFiles(const TempFolder& folder) {
  const std::filesystem::directory_iterator files(folder.path());
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

void WriteAll(const std::string& path, const std::vector<std::string>& payloads,
              const TfRecordWriterOptions& options = {}) {
  auto writer = TfRecordWriter::Open(path, options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const std::string& payload : payloads) ASSERT_TRUE((*writer)->Write(payload).ok());
  ASSERT_TRUE((*writer)->Close().ok());
}

TEST(RecordWriterTest, PlainOutputIsTensorFlowsToTheByte) {
  const TempFolder folder;
  WriteAll(folder / "a", TfPayloads());
  EXPECT_EQ(ReadFile(folder / "a"), ReadFile(TestData("tf_plain.tfrecord")));
}

TEST(RecordWriterTest, CompressedOutputInflatesToThePlainOne) {
  const TempFolder folder;
  for (const Compression compression : {Compression::kGzip, Compression::kZlib}) {
    for (const int level : {1, 6, 9}) {
      WriteAll(folder / "a", TfPayloads(), {compression, level});
      const std::string bytes = ReadFile(folder / "a");
      EXPECT_EQ(Inflated(bytes), ReadFile(TestData("tf_plain.tfrecord")));
      EXPECT_EQ(bytes.substr(0, 1), compression == Compression::kGzip ? "\x1f" : "\x78");
    }
  }
}

TEST(RecordWriterTest, LargeAndManyRecordsReadBack) {
  const TempFolder folder;
  std::vector<std::string> payloads(2000, "small");
  payloads.emplace_back(3'000'000, 'x');
  payloads.emplace_back(256 << 10, 'y');
  payloads.emplace_back();
  for (const Compression compression :
       {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    WriteAll(folder / "a", payloads, {compression, 1});
    auto reader = OpenTfRecordReader(folder / "a");
    ASSERT_TRUE(reader.ok());
    const ReadLog log = ReadToEnd(**reader);
    EXPECT_TRUE(log.Payloads() == payloads);
    EXPECT_TRUE(log.clean_end) << log.last_error;
  }
}

TEST(RecordWriterTest, CountsRecordsAndBytesBeforeCompression) {
  const TempFolder folder;
  auto writer = TfRecordWriter::Open(folder / "a", {Compression::kGzip, 6});
  ASSERT_TRUE((*writer)->Write("abc").ok());
  ASSERT_TRUE((*writer)->Write("defg").ok());
  EXPECT_EQ((*writer)->num_records(), 2u);
  EXPECT_EQ((*writer)->num_bytes(), 39u);
}

TEST(RecordWriterTest, NothingAppearsBeforeClose) {
  const TempFolder folder;
  WriteFile(folder / "a", "what was there");
  auto writer = TfRecordWriter::Open(folder / "a");
  ASSERT_TRUE((*writer)->Write("new").ok());
  EXPECT_EQ(ReadFile(folder / "a"), "what was there");
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_EQ(ReadFile(folder / "a"), Frame("new"));
  EXPECT_EQ(NumFiles(folder), 1u) << "the temporary file is gone";
}

TEST(RecordWriterTest, WithoutCloseNothingIsLeft) {
  const TempFolder folder;
  {
    auto writer = TfRecordWriter::Open(folder / "a");
    ASSERT_TRUE((*writer)->Write("new").ok());
    EXPECT_EQ(NumFiles(folder), 1u);
  }
  EXPECT_EQ(NumFiles(folder), 0u);
}

TEST(RecordWriterTest, TwoWritersOfOnePathDoNotMeet) {
  const TempFolder folder;
  auto first = TfRecordWriter::Open(folder / "a");
  auto second = TfRecordWriter::Open(folder / "a");
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE((*first)->Write("1").ok());
  ASSERT_TRUE((*second)->Write("2").ok());
  ASSERT_TRUE((*second)->Close().ok());
  ASSERT_TRUE((*first)->Close().ok());
  EXPECT_EQ(ReadFile(folder / "a"), Frame("1"));
}

TEST(RecordWriterTest, EmptyShardsAreValid) {
  const TempFolder folder;
  for (const Compression compression :
       {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    WriteAll(folder / "a", {}, {compression, 6});
    TfRecordReaderOptions options;
    options.compression = compression;
    auto reader = OpenTfRecordReader(folder / "a", options);
    EXPECT_TRUE(ReadToEnd(**reader).clean_end);
  }
}

TEST(RecordWriterTest, FileModeFollowsTheUmask) {
  const TempFolder folder;
  const mode_t before = ::umask(0027);
  WriteAll(folder / "a", {"x"});
  ::umask(before);
  struct stat info = {};
  ASSERT_EQ(::stat((folder / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(RecordWriterTest, BadOptionsAndFoldersAreRefused) {
  const TempFolder folder;
  EXPECT_EQ(TfRecordWriter::Open(folder / "a", {Compression::kAuto, 6}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TfRecordWriter::Open(folder / "a", {Compression::kGzip, 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TfRecordWriter::Open(folder / "none/a").status().code(), absl::StatusCode::kNotFound);
}

TEST(RecordWriterTest, FullDiskIsReportedStaysAndLeavesThePathUntouched) {
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const TempFolder folder;
    WriteFile(folder / "a", "what was there");
    int64_t room = 100'000;
    const auto write = [&room](int fd, const void* data, size_t size) -> ssize_t {
      if (room <= 0) {
        errno = ENOSPC;
        return -1;
      }
      const ssize_t done = ::write(fd, data, std::min<size_t>(size, 30'000));
      room -= done;
      return done;
    };
    auto writer = OpenTfRecordWriterWith(folder / "a", {compression, 1}, write);
    ASSERT_TRUE(writer.ok());
    absl::Status status;
    for (uint32_t i = 0; status.ok() && i < 1000; ++i) {
      std::string noise;
      for (uint32_t j = 0; j < 10'000; ++j)
        noise.push_back(static_cast<char>(j * j * (i + 7) >> 7));
      status = (*writer)->Write(noise);
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_MESSAGE(status);
    EXPECT_EQ((*writer)->Write("more"), status);
    EXPECT_EQ((*writer)->Close(), status);
    EXPECT_EQ(ReadFile(folder / "a"), "what was there");
    EXPECT_EQ(NumFiles(folder), 1u);
  }
}

TEST(RecordWriterTest, FullDiskAtCloseIsReported) {
  const TempFolder folder;
  const auto write = [](int, const void*, size_t) -> ssize_t {
    errno = ENOSPC;
    return -1;
  };
  auto writer = OpenTfRecordWriterWith(folder / "a", {}, write);
  ASSERT_TRUE((*writer)->Write("buffered").ok());
  EXPECT_EQ((*writer)->Close().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(NumFiles(folder), 0u);
}

TEST(RecordWriterTest, InterruptedWritesGoOn) {
  const TempFolder folder;
  int calls = 0;
  const auto write = [&calls](int fd, const void* data, size_t size) -> ssize_t {
    if (++calls % 2 == 1) {
      errno = EINTR;
      return -1;
    }
    return ::write(fd, data, std::min<size_t>(size, 5));
  };
  auto writer = OpenTfRecordWriterWith(folder / "a", {}, write);
  ASSERT_TRUE((*writer)->Write("a payload longer than five bytes").ok());
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_EQ(ReadFile(folder / "a"), Frame("a payload longer than five bytes"));
}

TEST(RecordWriterTest, WritingAfterCloseIsRefused) {
  const TempFolder folder;
  auto writer = TfRecordWriter::Open(folder / "a");
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_EQ((*writer)->Write("late").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*writer)->Close().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace millrace::readers
