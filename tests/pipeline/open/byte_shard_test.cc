#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/pipeline.h"
#include "tests/messages.h"
#include "tests/temp_folder.h"

// shard { by_bytes }: consecutive records of about as many bytes each.

namespace millrace::pipeline {
namespace {

using Strings = std::vector<std::string>;

constexpr size_t kLongest = 900;

// Lines of 1 to 900 bytes, long ones among the first; "12 xxxx..." with their number in front.
Strings Lines() {
  Strings lines;
  for (int i = 0; i < 400; ++i) {
    std::string line = absl::StrCat(i, " ");
    line.resize(std::max<size_t>(line.size(), i < 40 ? kLongest : 4 + (i * 37) % 90), 'x');
    lines.push_back(line);
  }
  return lines;
}

class ByteShardTest : public testing::Test {
 protected:
  ByteShardTest() {
    const Strings lines = Lines();
    Write("a", 0, 300);
    Write("b", 300, 300);
    Write("c", 300, lines.size());
  }

  void Write(const std::string& name, size_t begin, size_t end) {
    std::ofstream out(folder_ / name, std::ios::binary);
    const Strings lines = Lines();
    for (size_t i = begin; i < end; ++i) out << lines[i] << "\n";
  }

  absl::StatusOr<std::unique_ptr<Pipeline>> Open(const std::string& stages) {
    const auto plan = Plan::FromText(
        absl::StrCat("seed: 3\nstage { text { files: '", std::string(folder_ / "?"), "' } }\n",
                     stages,
                     "stage { decode_raw { shape: -1 } }\nstage { padded_batch { size: 7 } }\n"),
        "p");
    if (!plan.ok()) return plan.status();
    OpenOptions options;
    options.index_folder = folder_ / "index";
    return Pipeline::Open(*plan, *MakeContext(), options);
  }

  // The numbers of the records of a shard.
  std::vector<uint64_t> RecordsOf(int index, int num_shards, const std::string& more = "") {
    auto pipeline = Open(absl::StrCat("stage { shard { num_shards: ", num_shards, " index: ", index,
                                      " by_bytes: true } }\n", more));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    std::vector<uint64_t> records;
    while (pipeline.ok()) {
      auto batch = (*pipeline)->Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok() || !batch->has_value()) break;
      for (int64_t row = 0; row < (*batch)->num_valid_rows(); ++row) {
        records.push_back((*batch)->ids()[row].record);
      }
    }
    return records;
  }

  const TempFolder folder_;
};

TEST_F(ByteShardTest, ShardsAreConsecutiveAndOfAboutAsManyBytes) {
  const Strings lines = Lines();
  size_t total = 0;
  for (const std::string& line : lines) total += line.size() + 1;
  for (const int num_shards : {1, 2, 3, 8, 50}) {
    uint64_t next = 0;
    for (int index = 0; index < num_shards; ++index) {
      size_t bytes = 0;
      for (const uint64_t record : RecordsOf(index, num_shards)) {
        EXPECT_EQ(record, next++) << index << " of " << num_shards;
        bytes += lines[record].size() + 1;
      }
      EXPECT_LE(bytes, total / num_shards + 2 * kLongest) << index << " of " << num_shards;
      EXPECT_GE(bytes + 2 * kLongest, total / num_shards) << index << " of " << num_shards;
    }
    EXPECT_EQ(next, lines.size()) << num_shards;
  }
}

TEST_F(ByteShardTest, MoreShardsThanRecordsLeaveSomeEmpty) {
  uint64_t records = 0;
  for (int index = 0; index < 500; ++index) records += RecordsOf(index, 500).size();
  EXPECT_EQ(records, Lines().size());
}

TEST_F(ByteShardTest, IsShuffledAndRepeatedLikeAnyOther) {
  std::vector<uint64_t> records =
      RecordsOf(1, 3, "stage { global_shuffle {} }\nstage { repeat { epochs: 2 } }\n");
  std::vector<uint64_t> twice = RecordsOf(1, 3);
  EXPECT_NE(std::vector(records.begin(), records.begin() + twice.size()), twice);
  twice.insert(twice.end(), twice.begin(), twice.end());
  std::sort(records.begin(), records.end());
  std::sort(twice.begin(), twice.end());
  EXPECT_EQ(records, twice);
}

TEST_F(ByteShardTest, StandsDirectlyBehindFiles) {
  const std::string shard = "stage { shard { num_shards: 2 by_bytes: true } }\n";
  const auto behind = Open("stage { take { count: 10 } }\n" + shard);
  EXPECT_EQ(behind.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(behind.status());
  const auto plan = Plan::FromText(
      "stage { range { count: 10 } }\n" + shard + "stage { batch { size: 2 } }\n", "p");
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::pipeline
