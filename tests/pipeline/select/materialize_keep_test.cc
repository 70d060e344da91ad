#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "absl/strings/str_replace.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/source/open.h"
#include "tests/messages.h"
#include "tests/pipeline/select/materialize_fixture.h"

// The outcome of a materialized filter on disk: made once, made again when it does not fit, and
// what records do that cannot be judged.

namespace millrace::pipeline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class MaterializeKeepTest : public MaterializeTest {
 protected:
  // Reads that it takes to find out which records there are.
  int ReadsOfSelect(const std::string& text) {
    const PhysicalPlan plan = *BuildPhysicalPlan(*Plan::FromText(text, "p"));
    const auto context = MakeTestContext();
    OpenOptions options;
    options.index_folder = folder_ / "index";
    OpenedSources sources = *OpenSources(plan, *context, options);
    io_->reads = 0;
    EXPECT_TRUE(sources.Select(plan, *context, options).ok());
    return io_->reads;
  }

  static std::string Bytes(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void Write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  fs::path Shard(int shard) const { return folder_ / absl::StrCat("all/data-", shard); }
  static void WriteShard(const fs::path& path, const std::vector<std::string>& records) {
    auto writer = *readers::TfRecordWriter::Open(path);
    for (const std::string& record : records) ASSERT_TRUE(writer->Write(record).ok());
    ASSERT_TRUE(writer->Close().ok());
  }
};

// S-SELECT-5.
TEST_F(MaterializeKeepTest, TheSecondOpenExaminesNothing) {
  WriteData();
  EXPECT_GT(ReadsOfSelect(Plain()), 0);
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_EQ(ReadsOfSelect(Plain()), 0);
  // Neither what the predicate does not read nor names of stages make it stale.
  const std::string other = absl::StrCat(
      Source("all"), "stage { global_shuffle {} }",
      absl::StrReplaceAll(kParse, {{"feature { key: \"number\"",
                                    "feature { key: \"n\" default_int: 1 dtype: INT64 } "
                                    "feature { key: \"number\""}}),
      absl::StrReplaceAll(Filter(), {{"stage {", "stage { name: \"keep\""}}), kBatch);
  EXPECT_EQ(ReadsOfSelect(other), 0);
  EXPECT_GT(ReadsOfSelect(Plain("label == 2")), 0);
  EXPECT_GT(ReadsOfSelect(absl::StrReplaceAll(
                Plain(), {{"key: \"label\" dtype", "key: \"label\" default_int: 1 dtype"}})),
            0);
  EXPECT_GT(ReadsOfSelect(absl::StrReplaceAll(Plain(), {{"data-*\"", "data-*\" skip_crc: true"}})),
            0);
  EXPECT_EQ(Files().size(), 4u);
  EXPECT_EQ(log_, "");
}

// S-SELECT-5.
TEST_F(MaterializeKeepTest, DamagedAndForeignFilesAreMadeAgain) {
  WriteData();
  const Stream wanted = Run(Plain());
  const fs::path file = Files().at(0);
  const std::string good = Bytes(file);
  Run(Plain("label == 2"));
  ASSERT_EQ(Files().size(), 2u);
  const std::string foreign = Bytes(Files()[0] == file ? Files()[1] : Files()[0]);
  std::string flipped = good;
  flipped[50] = static_cast<char>(flipped[50] ^ 4);
  const std::string bad[] = {"",      "MLRSELCT", good.substr(0, good.size() - 1),
                             flipped, foreign,    good + good};
  for (const std::string& bytes : bad) {
    Write(file, bytes);
    EXPECT_EQ(Run(Plain()).batches, wanted.batches);
    EXPECT_EQ(Bytes(file), good);
  }
}

// S-SELECT-5.
TEST_F(MaterializeKeepTest, FilesThatWereRewrittenAreLookedAtAgain) {
  WriteData();
  Run(Plain());
  // Of the same sizes: the data fingerprint of the source stays.
  std::vector<std::string> records;
  for (int i = 0; i < 20; ++i) records.push_back(Example(i, 1));
  const uint64_t size = fs::file_size(Shard(0));
  WriteShard(Shard(0), records);
  ASSERT_EQ(fs::file_size(Shard(0)), size);
  fs::last_write_time(Shard(0), fs::last_write_time(Shard(1)) + std::chrono::seconds(10));
  const Stream seen = Run(Plain());
  EXPECT_EQ(seen.batches.size(), (45u - 8 + 20 + 7) / 8);
  EXPECT_EQ(seen.batches.at(1).at(0), 8);
  EXPECT_EQ(Files().size(), 1u);
}

// S-SELECT-4.
TEST_F(MaterializeKeepTest, ARecordThatNoLongerFitsIsAnError) {
  WriteData();
  Run(Plain());
  const auto time = fs::last_write_time(Shard(1));
  std::vector<std::string> records;
  for (int i = 20; i < 41; ++i) records.push_back(Example(i, i % 5 == 1 ? 2 : Label(i, 1)));
  WriteShard(Shard(1), records);
  fs::last_write_time(Shard(1), time);
  const Stream seen = Run(Plain());
  EXPECT_EQ(seen.batches.size(), 1u);
  EXPECT_EQ(seen.end.code(), absl::StatusCode::kDataLoss);
  EXPECT_MESSAGE(seen.end);
  EXPECT_EQ(GetRecordError(seen.end)->ordinal, 1);
}

// S-SELECT-4.
TEST_F(MaterializeKeepTest, ABadRecordIsTheErrorOfItsPlace) {
  WriteData();
  std::string bytes = Bytes(Shard(1));
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);  // of the last payload
  Write(Shard(1), bytes);
  std::vector<std::string> records;
  for (int i = 0; i < 22; ++i) records.push_back(i == 2 ? "no example" : Example(41 + i, 2));
  WriteShard(Shard(2), records);
  for (int pass = 0; pass < 2; ++pass) {
    const auto pipeline = *Open(Plain());
    // 8 of shard 0, 8 of shard 1 and its last, 1 of shard 2, 10 each of shards 4 and 5.
    EXPECT_EQ(pipeline->length().batches, 5u);
    Stream seen;
    Drain(*pipeline, &seen);
    EXPECT_EQ(seen.batches.size(), 2u);
    EXPECT_EQ(seen.end.code(), absl::StatusCode::kDataLoss) << seen.end;
    EXPECT_EQ(GetRecordError(seen.end)->reason, RecordErrorReason::kDataCrc);
    EXPECT_EQ(GetRecordError(seen.end)->ordinal, 20);
    EXPECT_EQ(GetRecordError(seen.end)->position, 16);
  }
  const Stream skipped = Run(absl::StrReplaceAll(Plain(), {{"stage { parse",
                                                            "stage { skip { count: 17 } } stage { "
                                                            "parse"}}));
  EXPECT_TRUE(skipped.batches.empty());
  EXPECT_EQ(GetRecordError(skipped.end)->reason, RecordErrorReason::kExample);
  EXPECT_EQ(GetRecordError(skipped.end)->ordinal, 2);
}

// S-SELECT-4.
TEST_F(MaterializeKeepTest, AConditionWithoutOutcomeIsTheErrorOfItsRecord) {
  WriteData();
  const std::string parse = absl::StrReplaceAll(
      kParse, {{"feature { key: \"number\"",
                "feature { key: \"tokens\" dtype: INT64 shape: -1 } feature { key: \"number\""}});
  const std::string padded = "stage { padded_batch { size: 8 } }";
  for (const std::string& batch :
       {absl::StrCat("stage { unbatch { field: \"tokens\" } }", kBatch), padded}) {
    const Stream seen = Run(absl::StrCat(Source("all"), parse, Filter("tokens[1] >= 0"), batch));
    EXPECT_TRUE(seen.batches.empty());
    EXPECT_EQ(seen.end.code(), absl::StatusCode::kInvalidArgument) << seen.end;
    EXPECT_EQ(GetRecordError(seen.end)->reason, RecordErrorReason::kFeature);
    EXPECT_EQ(GetRecordError(seen.end)->ordinal, 0);
    EXPECT_MESSAGE(seen.end);
  }
}

// S-SELECT-4.
TEST_F(MaterializeKeepTest, AReadThatFailsIsTheErrorOfOpen) {
  WriteData();
  io_->fails = true;
  const auto failed = Open(Plain());
  EXPECT_EQ(failed.status(), absl::UnavailableError("the disk is gone"));
  EXPECT_TRUE(Files().empty());
  io_->fails = false;
  EXPECT_EQ(Run(Plain()).batches.size(), 6u);
}

TEST_F(MaterializeKeepTest, AFolderThatCannotBeUsedIsAWarning) {
  WriteData();
  OpenOptions options;
  options.index_folder = (Shard(0) / "below-a-file").string();
  const auto pipeline = Open(Plain(), options);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ((*pipeline)->length().batches, 6u);
  EXPECT_THAT(log_, HasSubstr("the outcome of a filter is not kept"));
}

TEST_F(MaterializeKeepTest, ProcessesThatStartTogetherLookOnce) {
  WriteData();
  const int alone = ReadsOfSelect(Plain());
  fs::remove(Files().at(0));
  io_->reads = 0;
  const PhysicalPlan plan = *BuildPhysicalPlan(*Plan::FromText(Plain(), "p"));
  OpenOptions options;
  options.index_folder = folder_ / "index";
  const auto context = MakeTestContext();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&] {
      OpenedSources sources = *OpenSources(plan, *context, options);
      EXPECT_TRUE(sources.Select(plan, *context, options).ok());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(io_->reads, alone);
}

TEST_F(MaterializeKeepTest, TheProgressOfALongLookIsTold) {
  WriteData();
  OpenOptions options;
  std::vector<int64_t> done;
  int64_t total = 0;
  ASSERT_TRUE(Open(absl::StrCat(Source("all"), kParse, kBatch)).ok());  // indexes
  options.index_progress = [&](int64_t done_bytes, int64_t total_bytes) {
    done.push_back(done_bytes);
    total = total_bytes;
  };
  ASSERT_TRUE(Open(Plain(), options).ok());
  int64_t bytes = 0;
  for (int shard = 0; shard < kShards; ++shard) {
    bytes += static_cast<int64_t>(fs::file_size(Shard(shard)));
  }
  EXPECT_EQ(total, bytes);
  ASSERT_FALSE(done.empty());
  EXPECT_TRUE(std::ranges::is_sorted(done));
  EXPECT_EQ(done.back(), bytes);
}

}  // namespace
}  // namespace millrace::pipeline
