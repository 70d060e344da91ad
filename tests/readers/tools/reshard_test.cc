#include "readers/reshard.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "readers/record_reader.h"
#include "readers/record_writer.h"
#include "tests/messages.h"
#include "tests/readers/record_test_util.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

std::vector<std::string> PayloadsOf(const std::string& path) {
  const auto reader = OpenTfRecordReader(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  const ReadLog log = ReadToEnd(**reader);
  EXPECT_TRUE(log.clean_end) << log.last_error;
  return log.Payloads();
}

class ReshardTest : public testing::Test {
 protected:
  ReshardTest() {
    std::filesystem::create_directory(folder_ / "out");
    for (int i = 0; i < 100; ++i) {
      payloads_.push_back(std::to_string(i) + std::string(static_cast<size_t>(i * 37 % 500), 'x'));
    }
    Write("in-0", 0, 60, Compression::kNone);
    Write("in-1", 60, 100, Compression::kGzip);
  }

  void Write(const std::string& name, size_t begin, size_t end, Compression compression) {
    const auto writer = TfRecordWriter::Open(folder_ / name, {.compression = compression});
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (size_t i = begin; i < end; ++i) ASSERT_TRUE((*writer)->Write(payloads_[i]).ok());
    ASSERT_TRUE((*writer)->Close().ok());
  }
  ReshardOptions Options(int num_shards) const {
    ReshardOptions options;
    options.files = {folder_ / "in-0", folder_ / "in-1"};
    options.output_prefix = folder_ / "out/t";
    options.num_shards = num_shards;
    options.index_folder = folder_ / "index";
    return options;
  }
  static std::vector<std::string> All(const ReshardReport& report) {
    std::vector<std::string> all;
    for (const std::string& file : report.files) {
      const auto payloads = PayloadsOf(file);
      EXPECT_FALSE(payloads.empty()) << file;
      all.insert(all.end(), payloads.begin(), payloads.end());
    }
    return all;
  }

  TempFolder folder_;
  std::vector<std::string> payloads_;
};

TEST_F(ReshardTest, ShardsOneAfterTheOtherAreTheInput) {
  for (const int num_shards : {1, 3, 7, 100}) {
    ReshardOptions options = Options(num_shards);
    options.overwrite = true;
    const auto report = Reshard(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->files.size(), static_cast<size_t>(num_shards));
    EXPECT_EQ(report->num_records, 100u);
    EXPECT_THAT(All(*report), ElementsAreArray(payloads_));
  }
}

TEST_F(ReshardTest, IndexingShowsProgress) {
  ReshardOptions options = Options(2);
  int64_t done = 0;
  int64_t all = 0;
  options.index_progress = [&](int64_t done_bytes, int64_t total_bytes) {
    done = done_bytes;
    all = total_bytes;
  };
  ASSERT_TRUE(Reshard(options).ok());
  EXPECT_GT(all, 0);
  EXPECT_EQ(done, all);
}

TEST_F(ReshardTest, ShardsHaveEquallyManyBytes) {
  const auto report = Reshard(Options(5));
  ASSERT_TRUE(report.ok()) << report.status();
  uint64_t total = 0;
  for (const std::string& payload : payloads_) total += payload.size() + 16;
  for (const std::string& file : report->files) {
    const uint64_t bytes = std::filesystem::file_size(file);
    EXPECT_LE(bytes, total / 5 + 520) << "a record more at most";
    EXPECT_GE(bytes + 520, total / 5) << "a record less at most";
  }
}

TEST_F(ReshardTest, OneHugeRecordDoesNotEmptyTheOthers) {
  payloads_ = {std::string(100'000, 'x'), "a", "b", "c"};
  Write("huge", 0, 4, Compression::kNone);
  for (const bool at_end : {false, true}) {
    if (at_end) std::ranges::reverse(payloads_);
    Write("huge", 0, 4, Compression::kNone);
    ReshardOptions options = Options(3);
    options.files = {folder_ / "huge"};
    options.overwrite = true;
    const auto report = Reshard(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(All(*report), ElementsAreArray(payloads_));
  }
}

TEST_F(ReshardTest, ASeedShufflesAllRecords) {
  ReshardOptions options = Options(3);
  options.shuffle = true;
  options.seed = 9;
  const auto report = Reshard(options);
  ASSERT_TRUE(report.ok()) << report.status();
  const auto shuffled = All(*report);
  EXPECT_NE(shuffled, payloads_);
  EXPECT_THAT(shuffled, testing::UnorderedElementsAreArray(payloads_));
  options.output_prefix = folder_ / "out/again";
  EXPECT_EQ(All(*Reshard(options)), shuffled);
  options.output_prefix = folder_ / "out/other";
  options.seed = 10;
  EXPECT_NE(All(*Reshard(options)), shuffled);
}

TEST_F(ReshardTest, ASampleIsDrawnWithoutReplacementInItsOrder) {
  ReshardOptions options = Options(2);
  options.sample_records = 30;
  options.seed = 4;
  const auto report = Reshard(options);
  ASSERT_TRUE(report.ok()) << report.status();
  const auto sample = All(*report);
  ASSERT_EQ(sample.size(), 30u);
  size_t next = 0;  // each is found behind the one before
  for (const std::string& payload : sample) {
    while (next < payloads_.size() && payloads_[next] != payload) ++next;
    ASSERT_LT(next++, payloads_.size());
  }
  EXPECT_NE(sample, std::vector(payloads_.begin(), payloads_.begin() + 30));
}

TEST_F(ReshardTest, WhatDoesNotFitIsNamed) {
  const auto error = [](const ReshardOptions& options) {
    const auto status = Reshard(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return status;
  };
  EXPECT_MESSAGE(error(Options(101)));
  ReshardOptions sample = Options(1);
  sample.sample_records = 101;
  EXPECT_MESSAGE(error(sample));
  sample.sample_records = 0;
  EXPECT_MESSAGE(error(sample));
  EXPECT_MESSAGE(error(Options(0)));
  ReshardOptions level = Options(1);
  level.compression_level = 10;
  EXPECT_MESSAGE(error(level));
}

TEST_F(ReshardTest, DamageIsNamedAndNothingIsWritten) {
  std::string bytes = ReadFile(folder_ / "in-0");
  bytes[bytes.size() - 5] ^= 1;  // in the payload of record 59
  WriteFile(folder_ / "in-0", bytes);
  const auto report = Reshard(Options(2));
  const auto error = GetRecordError(report.status());
  ASSERT_TRUE(error.has_value()) << report.status();
  EXPECT_EQ(error->ordinal, 59);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out"));
}

TEST_F(ReshardTest, NoRecordsMakeOneEmptyShard) {
  WriteFile(folder_ / "empty", "");
  ReshardOptions options = Options(1);
  options.files = {folder_ / "empty"};
  const auto report = Reshard(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(PayloadsOf(report->files[0]), ElementsAre());
}

// In a child that dies without a word when it has written the second shard.
void KillReshard(const ReshardOptions& options) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    (void)Reshard(options, [calls = 0](int64_t, int64_t) mutable {
      if (++calls == 3) ::raise(SIGKILL);
    });
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST_F(ReshardTest, AKilledOneGoesOnWhereItWas) {
  const ReshardOptions options = Options(4);
  KillReshard(options);
  int calls = 0;
  const auto report = Reshard(options, [&](int64_t, int64_t) { ++calls; });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(calls, 2) << "the last two shards";
  EXPECT_THAT(All(*report), ElementsAreArray(payloads_));
}

// Of the same names, bytes and times, in another folder.
TEST_F(ReshardTest, AKilledOneOfOtherFilesIsNotGoneOnWith) {
  ReshardOptions options = Options(4);
  KillReshard(options);
  std::filesystem::create_directory(folder_ / "other");
  for (std::string& file : options.files) {
    const std::string copy = folder_ / "other/" + std::filesystem::path(file).filename().string();
    std::filesystem::copy_file(file, copy);
    std::filesystem::last_write_time(copy, std::filesystem::last_write_time(file));
    file = copy;
  }
  int calls = 0;
  const auto report = Reshard(options, [&](int64_t, int64_t) { ++calls; });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(calls, 4);
}

}  // namespace
}  // namespace millrace::readers
