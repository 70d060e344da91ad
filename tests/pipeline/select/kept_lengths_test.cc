#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_replace.h"
#include "base/metric_table.h"
#include "pipeline/cut/length_table.h"
#include "tests/messages.h"
#include "tests/pipeline/select/materialize_fixture.h"

// bucket_by_length { keep_lengths: true }: the same stream, and pass 1 reads nothing (S-CUT-22).

namespace millrace::pipeline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kByField[] = "field: \"tokens\" boundary: [2, 3] batch_size: [8, 4, 4]";
constexpr char kByKey[] = "key: \"label\" boundary: [2] batch_size: [8, 6]";

class KeptLengthsTest : public MaterializeTest {
 protected:
  std::string PlanText(const std::string& bucket, bool keep, const std::string& before = "") const {
    return absl::StrCat(Source("all"), "stage { global_shuffle {} }\n",
                        "stage { parse_example { feature { key: \"label\" dtype: INT64 }\n"
                        "  feature { key: \"number\" dtype: INT64 }\n"
                        "  feature { key: \"tokens\" dtype: INT64 shape: [-1] } } }\n",
                        before, "stage { bucket_by_length { ", bucket,
                        keep ? " keep_lengths: true" : "",
                        " } }\nstage { repeat { epochs: 2 } }\n");
  }

  // The records that pass 1 of a rank looks at until its stream ends, of a context of its own.
  int64_t Examined(const std::string& text, int rank, int world) {
    OpenOptions options;
    options.rank = rank;
    options.world = world;
    options.index_folder = folder_ / "index";
    const auto context = MakeTestContext();
    const auto pipeline = Pipeline::Open(*Plan::FromText(text, "p"), context, options);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    Stream stream;
    Drain(**pipeline, &stream);
    EXPECT_TRUE(stream.end.ok()) << stream.end;
    return context->metrics().counter(metric::kRecordsExamined).value();
  }

  void ExpectSame(const Stream& got, const Stream& expected) {
    EXPECT_TRUE(got.end.ok()) << got.end;
    EXPECT_EQ(got.batches, expected.batches);
    EXPECT_EQ(got.epochs, expected.epochs);
    EXPECT_EQ(got.tokens, expected.tokens);
  }

  std::vector<fs::path> LengthFiles() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_ / "index")) {
      if (entry.path().extension() == ".lengths") files.push_back(entry.path());
    }
    return files;
  }
};

TEST_F(KeptLengthsTest, StreamsAndTokensAreThoseOfLengthsThatAreNotKept) {
  WriteData();
  const std::string select =
      "stage { filter { predicate: \"label in (1, 4)\" materialize: true } }";
  for (const std::string bucket : {kByField, kByKey}) {
    for (const std::string& before : {std::string(), select}) {
      for (const int world : {1, 3}) {
        const Stream plain = Run(PlanText(bucket, false, before), world);
        ASSERT_GT(plain.batches.size(), 5u);
        ExpectSame(Run(PlanText(bucket, true, before), world), plain);
      }
    }
  }
  EXPECT_EQ(log_, "");
}

TEST_F(KeptLengthsTest, ATokenGoesOnWithAndWithoutThem) {
  WriteData();
  const Stream whole = Run(PlanText(kByField, false));
  for (size_t i = 0; i < whole.tokens.size(); i += 5) {
    const Stream plain = Run(PlanText(kByField, false), 1, whole.tokens[i]);
    ExpectSame(Run(PlanText(kByField, true), 1, whole.tokens[i]), plain);
    EXPECT_EQ(Run(PlanText(kByField, true), 4, whole.tokens[i]).batches, plain.batches);
  }
}

TEST_F(KeptLengthsTest, PassOneLooksAtNoRecordOnceTheyAreKept) {
  WriteData();
  const int64_t plain = Examined(PlanText(kByField, false), 1, 4);
  EXPECT_GE(plain, 2 * 6 * 20);
  for (int open = 0; open < 2; ++open) {  // the first look is none of pass 1
    EXPECT_EQ(Examined(PlanText(kByField, true), 1, 4), 0);
    EXPECT_EQ(LengthFiles().size(), 1u);
  }
  // One table for all that is found in the same way; another for what is not.
  EXPECT_EQ(Examined(absl::StrReplaceAll(PlanText(kByField, true), {{"[2, 3]", "[1, 2]"}}), 0, 1),
            0);
  EXPECT_EQ(LengthFiles().size(), 1u);
  EXPECT_EQ(Examined(PlanText(kByKey, true), 0, 1), 0);
  EXPECT_EQ(LengthFiles().size(), 2u);
}

TEST_F(KeptLengthsTest, OtherDataAndDamagedFilesAreLookedAtAnew) {
  WriteData();
  Run(PlanText(kByField, true));
  ASSERT_EQ(LengthFiles().size(), 1u);
  const fs::path file = LengthFiles()[0];
  const auto size = fs::file_size(file);
  const Stream plain = Run(PlanText(kByField, false));
  for (const uint64_t at : {uint64_t{0}, uint64_t{9}, uint64_t{20}, uint64_t{50}, size - 1}) {
    {
      std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekp(static_cast<std::streamoff>(at));
      bytes.put('\x55');
    }
    ExpectSame(Run(PlanText(kByField, true)), plain);
    EXPECT_EQ(Examined(PlanText(kByField, true), 0, 1), 0) << at;
  }
  fs::resize_file(file, size - 4);
  ExpectSame(Run(PlanText(kByField, true)), plain);
  {
    auto shard = *readers::TfRecordWriter::Open(folder_ / "all/data-2");
    for (int number = 0; number < 22; ++number) {
      ASSERT_TRUE(shard->Write(Example(number + 1, 3)).ok());
    }
    ASSERT_TRUE(shard->Close().ok());
  }
  ExpectSame(Run(PlanText(kByField, true)), Run(PlanText(kByField, false)));
  EXPECT_EQ(log_, "");
}

// S-CUT-4, S-DAMAGE-8: what cannot be looked at is looked at when its turn comes.
TEST_F(KeptLengthsTest, BadRecordsHaveTheErrorsThatTheyHaveWithoutThem) {
  WriteData();
  {
    auto shard = *readers::TfRecordWriter::Open(folder_ / "all/data-7");
    for (const char* record : {"no example", "\x0a\x7f", ""}) {
      ASSERT_TRUE(shard->Write(record).ok());
    }
    ASSERT_TRUE(shard->Close().ok());
  }
  for (const int world : {1, 2}) {
    const std::string skip = "on_damage { policy: \"skip\" }\n";
    const Stream plain = Run(skip + PlanText(kByField, false), world);
    ExpectSame(Run(skip + PlanText(kByField, true), world), plain);
  }
  EXPECT_EQ(Run(PlanText(kByField, true)).end, Run(PlanText(kByField, false)).end);
  // The empty record is an Example, of no tokens, and only pass 2 misses its label.
  EXPECT_EQ(Examined("on_damage { policy: \"skip\" }\n" + PlanText(kByField, true), 0, 2), 2 * 2);
}

TEST_F(KeptLengthsTest, WithoutAFirstLookTheStreamIsTheSameAndTheLogSaysSo) {
  WriteData();
  const Stream plain = Run(PlanText(kByField, false));
  io_->fails = true;
  const auto pipeline = Open(PlanText(kByField, true));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_THAT(log_, HasSubstr("keep_lengths: the lengths are found out as if they were not kept"));
  EXPECT_TRUE(LengthFiles().empty());
  io_->fails = false;
  // It began to read when it was opened.
  ASSERT_TRUE((*pipeline)->Restore((*pipeline)->Save()).ok());
  Stream got;
  Drain(**pipeline, &got);
  ExpectSame(got, plain);
}

TEST_F(KeptLengthsTest, WhatIsNoFunctionOfTheRecordIsRefused) {
  WriteData();
  const auto refused = [&](const std::string& text) {
    const absl::Status status = Open(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return status;
  };
  EXPECT_MESSAGE(
      refused(PlanText(kByField, true, "stage { filter { predicate: \"label > 1\" } }\n")));
  EXPECT_MESSAGE(refused(PlanText(
      kByField, true, "stage { name: \"hashed\" hash { field: \"tokens\" num_bins: 4 } }\n")));
}

TEST(LengthTableTest, KnowsNoNumbersBeyondItsOwn) {
  LengthTable table(4, 2);
  const std::vector<std::pair<int64_t, int64_t>> numbers = {
      {3, 0}, {-1, 2}, {5, int64_t{1} << 32}, {0xFFFFFFFE, 7}};
  for (size_t record = 0; record < numbers.size(); ++record) {
    EXPECT_FALSE(table.Knows(record));
    const int64_t extents[] = {numbers[record].first, numbers[record].second};
    table.Set(record, extents);
  }
  const auto copy = LengthTable::Decode(table.Encode(1, 2), 1, 2, 4, 2);
  ASSERT_TRUE(copy.has_value());
  EXPECT_FALSE(LengthTable::Decode(table.Encode(1, 2), 1, 3, 4, 2).has_value());
  EXPECT_FALSE(LengthTable::Decode(table.Encode(1, 2), 1, 2, 2, 4).has_value());
  for (const LengthTable& lengths : {table, *copy}) {
    EXPECT_TRUE(lengths.Knows(0));
    EXPECT_FALSE(lengths.Knows(1));
    EXPECT_FALSE(lengths.Knows(2));
    EXPECT_TRUE(lengths.Knows(3));
    std::vector<int64_t> extents;
    lengths.AppendTo(0, extents);
    lengths.AppendTo(3, extents);
    EXPECT_EQ(extents, (std::vector<int64_t>{3, 0, 0xFFFFFFFE, 7}));
  }
}

}  // namespace
}  // namespace millrace::pipeline
