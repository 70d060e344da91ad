#include "readers/sharded_writer.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "readers/convert.h"
#include "readers/record_reader.h"
#include "tests/readers/record_test_util.h"

namespace millrace::readers {
namespace {

std::unique_ptr<ShardedWriter> OpenWriter(const ShardedWriterOptions& options) {
  auto writer = ShardedWriter::Open(options);
  EXPECT_TRUE(writer.ok()) << writer.status();
  return writer.ok() ? *std::move(writer) : nullptr;
}

std::set<std::string> NamesIn(const TempFolder& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

std::vector<std::string> Payloads(int count) {
  std::vector<std::string> payloads;
  for (int i = 0; i < count; ++i) payloads.push_back(std::string(i * 37 % 101, 'a') + "#");
  return payloads;
}

// The shards of a conversion of the same records: S of N gets records S * n / N to (S + 1) * n / N.
TEST(ShardedWriterTest, ShardsAreThoseOfAConversionToTheByte) {
  for (const Compression compression :
       {Compression::kNone, Compression::kGzip, Compression::kZlib, Compression::kZstd}) {
    for (const int num_shards : {1, 3, 10}) {
      const TempFolder folder;
      const std::vector<std::string> payloads = Payloads(10);
      const auto writer = OpenWriter({.output_prefix = folder / "written",
                                      .num_shards = num_shards,
                                      .compression = compression,
                                      .compression_level = 3});
      std::string text;
      for (const std::string& payload : payloads) {
        ASSERT_TRUE(writer->Write(payload).ok());
        text += payload + "\n";
      }
      ASSERT_TRUE(writer->Close().ok());
      EXPECT_EQ(writer->num_records(), payloads.size());
      WriteFile(folder / "lines.txt", text);
      ConvertOptions options;
      options.from = ConvertFormat::kText;
      options.files = {folder / "lines.txt"};
      options.output_prefix = folder / "converted";
      options.num_shards = num_shards;
      options.compression = compression;
      options.compression_level = 3;
      options.index_folder = folder / "index";
      const auto report = Convert(options);
      ASSERT_TRUE(report.ok()) << report.status();
      for (const std::string& file : report->files) {
        std::string written = file;
        written.replace(written.rfind("converted"), 9, "written");
        EXPECT_EQ(ReadFile(written), ReadFile(file)) << file;
      }
    }
  }
}

TEST(ShardedWriterTest, NothingIsThereBeforeCloseAndAfterAWriterThatWasNotClosed) {
  const TempFolder folder;
  for (const int num_shards : {1, 2}) {
    auto writer = OpenWriter({.output_prefix = folder / "a", .num_shards = num_shards});
    for (const std::string& payload : Payloads(5)) ASSERT_TRUE(writer->Write(payload).ok());
    const std::set<std::string> names = NamesIn(folder);
    ASSERT_EQ(names.size(), 1u);
    EXPECT_TRUE(names.begin()->starts_with(".a.convert-")) << *names.begin();
    writer.reset();
    EXPECT_TRUE(NamesIn(folder).empty());
  }
}

TEST(ShardedWriterTest, ACloseThatFailsLeavesNothing) {
  const TempFolder folder;
  auto writer = OpenWriter({.output_prefix = folder / "a", .num_shards = 3});
  ASSERT_TRUE(writer->Write("one").ok());
  ASSERT_TRUE(writer->Write("two").ok());
  const absl::Status few = writer->Close();
  EXPECT_EQ(few.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(few.message(), "num_shards: 3 shards for 2 records");
  EXPECT_TRUE(NamesIn(folder).empty());

  writer = OpenWriter({.output_prefix = folder / "a", .num_shards = 3});
  for (const std::string& payload : Payloads(9)) ASSERT_TRUE(writer->Write(payload).ok());
  std::vector<int64_t> seen;
  const absl::Status cancelled = writer->Close([&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 9);
    seen.push_back(done);
    return done == 5;
  });
  EXPECT_EQ(cancelled.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(seen, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_TRUE(NamesIn(folder).empty());
  EXPECT_EQ(writer->Close().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(writer->Write("x").code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ShardedWriterTest, ShardsThatAreThereAreReplacedOnlyIfAsked) {
  const TempFolder folder;
  const auto write = [&](int num_shards, bool overwrite) -> absl::Status {
    auto writer = ShardedWriter::Open(
        {.output_prefix = folder / "a", .num_shards = num_shards, .overwrite = overwrite});
    if (!writer.ok()) return writer.status();
    for (const std::string& payload : Payloads(4)) EXPECT_TRUE((*writer)->Write(payload).ok());
    return (*writer)->Close();
  };
  ASSERT_TRUE(write(4, false).ok());
  EXPECT_EQ(write(2, false).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(NamesIn(folder).size(), 5u);
  ASSERT_TRUE(write(2, true).ok());
  EXPECT_EQ(NamesIn(folder),
            (std::set<std::string>{"a-00000-of-00002.tfrecord", "a-00001-of-00002.tfrecord",
                                   "a.manifest.json"}));
}

TEST(ShardedWriterTest, BadOptionsAreNamed) {
  const TempFolder folder;
  const auto error = [](const ShardedWriterOptions& options) {
    return std::string(ShardedWriter::Open(options).status().message());
  };
  const std::string prefix = folder / "a";
  EXPECT_EQ(error({}), "output_prefix: no path given");
  EXPECT_EQ(error({.output_prefix = prefix, .num_shards = 0}),
            "num_shards: 0 is not in 1 to 99999");
  EXPECT_EQ(error({.output_prefix = prefix, .compression_level = 10}),
            "compression_level: 10 is not in 1 to 9");
  EXPECT_EQ(ShardedWriter::Open({.output_prefix = folder / "none/a"}).status().code(),
            absl::StatusCode::kNotFound);
}

// A limit on the size of files stands for a full disk.
TEST(ShardedWriterTest, CloseReturnsTheErrorOfAWriteThatFailed) {
  const TempFolder folder;
  const auto writer = OpenWriter({.output_prefix = folder / "x", .num_shards = 8});
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {4096, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  absl::Status written;
  for (int i = 0; i < 6 && written.ok(); ++i) written = writer->Write(std::string(1 << 20, 'x'));
  const absl::Status closed = writer->Close();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(written.ok());
  EXPECT_EQ(closed, written);
  EXPECT_THAT(NamesIn(folder), testing::IsEmpty());
}

}  // namespace
}  // namespace millrace::readers
