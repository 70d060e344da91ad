#include <algorithm>

#include "absl/strings/str_replace.h"
#include "pipeline/audit.h"
#include "tests/messages.h"
#include "tests/pipeline/select/materialize_fixture.h"

// What `filter { materialize: true }` means: the stream is that of a data set that has no other
// records than those which the filter keeps.

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Stages before parse_example, and behind the filter.
struct Case {
  const char* name;
  std::string before;
  std::string behind = "";
};

std::vector<Case> Cases() {
  return {
      {"plain", ""},
      {"global_shuffle", "stage { global_shuffle {} }"},
      {"shuffle", "stage { shuffle { buffer_size: 7 } }"},
      {"shard", "stage { shard { num_shards: 3 index: 1 } }"},
      {"repeat", "stage { global_shuffle {} } stage { repeat { epochs: 3 } }"},
      {"take_skip", "stage { skip { count: 5 } } stage { take { count: 21 } }"},
      {"interleave", "stage { interleave { cycle_length: 3 block_length: 2 } }"},
      {"interleave_shuffle",
       "stage { interleave { cycle_length: 2 shuffle_files: true } }"
       "stage { repeat { epochs: 2 } }"},
      {"behind", "stage { shuffle { buffer_size: 5 } }",
       "stage { repeat { epochs: 2 } } stage { shard { num_shards: 2 } }"},
      {"window", "stage { shuffle { buffer_size: 5 } }",
       "stage { window { size: 3 shift: 2 stride: 2 drop_remainder: true } }"
       "stage { name: \"windows\" shuffle { buffer_size: 5 } }"},
      {"global_behind", "", "stage { global_shuffle {} } stage { take { count: 30 } }"},
  };
}

std::string TextOf(const std::string& source, const Case& c, const std::string& parse,
                   const std::string& filter, const std::string& batch) {
  return absl::StrCat("seed: 5\n", source, c.before, "\n", parse, filter, c.behind, "\n", batch);
}

// S-SELECT-1, S-SELECT-3.
TEST_F(MaterializeTest, TheStreamIsThatOfFilesWithOnlyTheKeptRecords) {
  WriteData();
  for (const Case& c : Cases()) {
    for (const std::string batch :
         {"stage { batch { size: 8 } } stage { repeat { epochs: 2 } }",
          "stage { batch { size: 6 drop_remainder: true } } stage { skip { count: 1 } }"}) {
      const std::string text = TextOf(Source("all"), c, kParse, Filter(), batch);
      const std::string oracle = TextOf(Source("kept"), c, kParse, "", batch);
      const Stream wanted = Run(oracle);
      ASSERT_GT(wanted.batches.size(), 0u) << c.name;
      for (const int world : {1, 2, 3}) {
        const Stream seen = Run(text, world);
        EXPECT_TRUE(seen.end.ok()) << seen.end;
        EXPECT_EQ(seen.batches, wanted.batches) << c.name << " world " << world;
      }
      EXPECT_EQ(Run(text).epochs, wanted.epochs) << c.name;
      const StreamLength length = (*Open(text))->length();
      EXPECT_TRUE(length.known);
      EXPECT_EQ(length.batches, wanted.batches.size()) << c.name;
      EXPECT_EQ(length.batches_per_epoch, (*Open(oracle))->length().batches_per_epoch) << c.name;
    }
  }
}

// S-SELECT-1.
TEST_F(MaterializeTest, InputsOfJoinsHaveOnlyTheKeptRecords) {
  WriteData();
  for (const char* join : {"concatenate", "mix"}) {
    const auto source = [&](const std::string& part) {
      return absl::StrCat("stage { ", join, " { input { ", Source(part, "data-[0123]"),
                          "stage { shuffle { buffer_size: 4 } } } input { ",
                          Source(part, "data-[345]"), "stage { take { count: 9 } } } } }\n");
    };
    const Case plain{"join", "stage { repeat { epochs: 2 } }"};
    const Stream wanted = Run(TextOf(source("kept"), plain, kParse, "", kBatch));
    const Stream seen = Run(TextOf(source("all"), plain, kParse, Filter(), kBatch), 2);
    ASSERT_GT(wanted.batches.size(), 3u);
    EXPECT_EQ(seen.batches, wanted.batches) << join;
  }
}

// S-SELECT-1.
TEST_F(MaterializeTest, SeveralFiltersKeepWhatAllOfThemKeep) {
  WriteData();
  const Stream wanted = Run(Plain("label in (1, 4) and number < 60"));
  const Stream seen = Run(absl::StrCat(Source("all"), kParse, Filter(),
                                       "stage { global_shuffle {} } stage { take { count: 99 } }",
                                       Filter("number < 60"), kBatch));
  EXPECT_EQ(seen.batches.size(), wanted.batches.size());
  const auto numbers = [](const Stream& stream) {
    std::vector<int64_t> all;
    for (const auto& [index, rows] : stream.batches) {
      for (const auto& [row, number] : rows) all.push_back(number);
    }
    std::ranges::sort(all);
    return all;
  };
  EXPECT_EQ(numbers(seen), numbers(wanted));
}

// S-SELECT-1.
TEST_F(MaterializeTest, WithoutOrderStagesItIsTheStreamOfThePlainFilter) {
  WriteData();
  const std::string end = "stage { repeat { epochs: 2 } }";
  const Stream plain = Run(absl::StrReplaceAll(Plain() + end, {{" materialize: true", ""}}));
  const Stream seen = Run(Plain() + end);
  EXPECT_EQ(seen.batches, plain.batches);
  EXPECT_EQ(seen.epochs, plain.epochs);
}

// S-SELECT-1: records keep their numbers.
TEST_F(MaterializeTest, RecordsKeepTheirNumbers) {
  WriteData();
  const auto pipeline = *Open(Plain());
  while (true) {
    const auto batch = *pipeline->Next();
    if (!batch.has_value()) break;
    const auto numbers = batch->Find("number").as<int64_t>();
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      if (batch->valid()[row] == 0) continue;
      EXPECT_EQ(batch->ids()[row].record, static_cast<uint64_t>(numbers[row]));
    }
  }
  EXPECT_EQ(pipeline->num_records(), 20u + 21 + 22 + 23 + 24 + 25);
}

TEST_F(MaterializeTest, ARangeCanBeSelectedToo) {
  const auto pipeline = *Open(
      "stage { range { count: 1000 } } stage { shard { num_shards: 2 index: 1 } }"
      "stage { filter { predicate: \"value >= 900 or value < 4\" materialize: true } }"
      "stage { batch { size: 26 } }");
  EXPECT_EQ(pipeline->length().batches, 2u);
  std::vector<int64_t> values;
  for (int i = 0; i < 2; ++i) {
    const auto batch = *pipeline->Next();
    const auto numbers = batch->Find("value").as<int64_t>();
    values.insert(values.end(), numbers.begin(), numbers.end());
  }
  std::vector<int64_t> wanted = {1, 3};
  for (int64_t value = 901; value < 1000; value += 2) wanted.push_back(value);
  EXPECT_EQ(values, wanted);
}

// A cut behind the filter is one like any other.
TEST_F(MaterializeTest, CutsMayFollow) {
  WriteData();
  const std::string parse = absl::StrReplaceAll(
      kParse, {{"feature { key: \"number\"",
                "feature { key: \"tokens\" dtype: INT64 shape: -1 } feature { key: \"number\""}});
  const std::string rest = absl::StrCat(
      "stage { unbatch { field: \"tokens\" } } stage { filter { predicate: \"number > 20\" } }",
      kBatch);
  const Case shuffled{"cut", "stage { global_shuffle {} }"};
  const Stream wanted = Run("lanes: 2 " + TextOf(Source("kept"), shuffled, parse, "", rest));
  const Stream seen = Run("lanes: 2 " + TextOf(Source("all"), shuffled, parse, Filter(), rest), 2);
  ASSERT_GT(wanted.batches.size(), 3u);
  EXPECT_EQ(seen.batches, wanted.batches);
}

// S-SELECT-3, S-STATE-20.
TEST_F(MaterializeTest, SeekGoesToEveryBatch) {
  WriteData();
  const Case c{"seek", "stage { shuffle { buffer_size: 9 } } stage { repeat { epochs: 2 } }"};
  const std::string text = TextOf(Source("all"), c, kParse, Filter(), kBatch);
  const Stream whole = Run(text);
  const auto pipeline = *Open(text);
  const uint64_t num_batches = pipeline->length().batches;
  ASSERT_EQ(num_batches, whole.batches.size());
  for (uint64_t batch = num_batches; batch-- > 0;) {
    ASSERT_TRUE(pipeline->Seek(batch).ok());
    Stream rest;
    Drain(*pipeline, &rest);
    const std::map wanted(whole.batches.find(batch), whole.batches.end());
    EXPECT_EQ(rest.batches, wanted) << batch;
  }
  EXPECT_EQ(pipeline->Seek(num_batches + 1).code(), absl::StatusCode::kInvalidArgument);
}

// S-SELECT-3, S-STATE-1.
TEST_F(MaterializeTest, TokensAreAPositionAndGoOnAtAnyWorld) {
  WriteData();
  const Case c{"token", "stage { global_shuffle {} }"};
  const std::string text = TextOf(Source("all"), c, kParse, Filter(), kBatch);
  const Stream whole = Run(text);
  for (size_t i = 0; i < whole.tokens.size(); ++i) {
    EXPECT_THAT(whole.tokens[i], Not(HasSubstr("state=")));
    const Stream rest = Run(text, 1 + static_cast<int>(i % 3), whole.tokens[i]);
    EXPECT_EQ(rest.batches, std::map(whole.batches.find(i + 1), whole.batches.end())) << i;
  }
}

// S-SELECT-6.
TEST_F(MaterializeTest, ItIsPartOfTheFingerprints) {
  WriteData();
  const std::string cut = absl::StrReplaceAll(Plain(), {{" materialize: true", ""}});
  EXPECT_NE(Plan::FromText(Plain(), "p")->Fingerprint(), Plan::FromText(cut, "p")->Fingerprint());
  const auto selected = *Open(Plain());
  EXPECT_NE(selected->data_fingerprint(), (*Open(cut))->data_fingerprint());
  EXPECT_NE(selected->data_fingerprint(), (*Open(Plain("label == 0")))->data_fingerprint());
  EXPECT_EQ(selected->data_fingerprint(),
            (*Open(Plain("label == 1 or label == 4")))->data_fingerprint());
  OpenOptions options;
  options.resume_token = Run(cut).tokens.at(0);
  EXPECT_EQ(Open(Plain(), options).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(MaterializeTest, NothingAndEverythingMayBeKept) {
  WriteData();
  EXPECT_TRUE(Run(Plain("label > 7")).batches.empty());
  EXPECT_EQ((*Open(Plain("label > 7")))->length().batches, 0u);
  const Stream all = Run(absl::StrCat(Source("all"), kParse, kBatch));
  EXPECT_EQ(Run(Plain("label <= 7")).batches, all.batches);
  const std::string unparsed = absl::StrCat(Source("all"), Filter("len(record) > 3"), kParse);
  EXPECT_EQ(Run(unparsed + kBatch).batches, all.batches);
  const auto forever =
      Open(absl::StrCat(Source("all"), "stage { repeat {} }", kParse, Filter("label > 7"), kBatch));
  EXPECT_EQ(forever.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(forever.status());
}

TEST_F(MaterializeTest, ExplainSaysHowManyRecordsAreSelected) {
  WriteData();
  const auto plan = *Plan::FromText(Plain(), "p");
  OpenOptions options;
  options.index_folder = folder_ / "index";
  for (const auto& context : {MakeTestContext(), std::shared_ptr<Context>()}) {
    const std::string text = *Explain(plan, context, options);
    EXPECT_THAT(text, HasSubstr("  select  records with label in (1, 4); kept beside the index  "
                                "[filter]\n"));
    EXPECT_THAT(text, HasSubstr("  examine: filter \"filter\" needs parse_example(label)\n"));
    EXPECT_THAT(text, HasSubstr("  records 135 ("));
    EXPECT_THAT(text, HasSubstr("  select  45 of 135 records\n  samples 45\n  batches 6\n"
                                "  rows    [0, 8) of every batch on rank 0 of 1\n"));
    EXPECT_THAT(text, Not(HasSubstr("pass 1")));
  }
  options.rank = kNoRank;
  EXPECT_THAT(*Explain(plan, nullptr, options), HasSubstr("  select  records with label"));
}

// S-SELECT-2.
TEST_F(MaterializeTest, OnlyWhatParsesMayStandInFront) {
  const auto error = [](const std::string& stages) {
    return Plan::FromText(absl::StrCat(stages, "\nstage { filter { predicate: \"label == 1\"\n",
                                       "  materialize: true } }\n", kBatch),
                          "p")
        .status();
  };
  const std::string source = "stage { tfrecord { files: \"x\" } }\n";
  EXPECT_MESSAGE(error(source + "stage { cast { field: \"label\" dtype: INT32 scale: 2 } }"));
  EXPECT_MESSAGE(error(source + "stage { flip {} }"));
  EXPECT_MESSAGE(error(source + "stage { custom { op: \"x\" } }"));
  EXPECT_MESSAGE(error(source + "stage { unbatch {} } stage { flip {} }"));
  EXPECT_MESSAGE(error(source + "stage { filter { predicate: \"label == 2\" } }"));
  EXPECT_MESSAGE(error("stage { push {} }"));
  EXPECT_MESSAGE(error(source + "stage { batch { size: 8 } }"));
}

TEST_F(MaterializeTest, AnAuditKnowsHowManyBatchesThereAre) {
  WriteData();
  const auto plan = *Plan::FromText(Plain(), "p");
  EXPECT_EQ(MakeAuditHeader(plan, **Open(Plain()), {})->stream_batches, 6u);
}

TEST_F(MaterializeTest, APredicateOverAnUnknownFieldNamesItsPlace) {
  WriteData();
  const auto status = Open(Plain("lable == 1")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(status);
}

}  // namespace
}  // namespace millrace::pipeline
