// What a server is asked for: the ranges of shuffled streams.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "pipeline/digest.h"
#include "pipeline/pipeline.h"
#include "tests/messages.h"
#include "tests/pipeline/open/http_ranges_fixture.h"

namespace millrace::pipeline {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Gt;
using testing::HasSubstr;
using testing::Le;
using testing::SizeIs;

using HttpRangesTest = HttpRangesFixture;

// S-FETCH-1.
TEST_F(HttpRangesTest, AShuffledRecordIsFetchedOnceAnEpochInRangesOfItsOwnSize) {
  for (const int epochs : {1, 2}) {
    const readers::ScriptServer server({Serve()});
    const size_t skip = RequestsOfIndexing(server);
    // So little is looked ahead that few neighbours are wanted at once.
    budget_ = 512 << 10;
    const std::string behind = absl::StrCat("stage { repeat { epochs: ", epochs,
                                            " } }\nstage { prefetch { batches: 1 } }");
    const Outcome over_http =
        Drain(PlanOf(server.Url(""), "stage { global_shuffle {} }", behind), &server);
    const auto asked = Asked(server, skip);
    epochs == 1 ? ExpectOnce(asked) : ExpectOnceInEach(server, skip, over_http.epochs);
    EXPECT_THAT(asked.at("a"), SizeIs(Gt(static_cast<size_t>(60 * epochs)))) << "no large blocks";
    EXPECT_EQ(over_http.digest,
              Drain(PlanOf(folder_ / "", "stage { global_shuffle {} }", behind)).digest);
    const uint64_t record_bytes = static_cast<uint64_t>(epochs) * 200 * kFrame;
    EXPECT_EQ(over_http.records(), record_bytes);
    EXPECT_LE(over_http.fetched(), record_bytes);
    EXPECT_GE(over_http.fetched(), record_bytes * 9 / 10);
    budget_ = int64_t{64} << 20;
  }
}

// S-FETCH-2.
TEST_F(HttpRangesTest, EachBlockOfAShuffleIsFetchedOnceAnEpoch) {
  const readers::ScriptServer server({Serve()});
  const size_t skip = RequestsOfIndexing(server);
  // Blocks of ten records, windows of four blocks.
  const std::string order =
      absl::StrCat("stage { global_shuffle { block_bytes: ", 10 * kFrame, " window: 40 } }");
  const std::string behind = "stage { repeat { epochs: 2 } }\nstage { prefetch { batches: 1 } }";
  const Outcome over_http = Drain(PlanOf(server.Url(""), order, behind), &server);
  const auto asked = Asked(server, skip);
  ExpectOnceInEach(server, skip, over_http.epochs);
  EXPECT_LE(asked.at("a").size() + asked.at("b").size(), 2 * 20u) << "a request a block";
  EXPECT_EQ(over_http.digest, Drain(PlanOf(folder_ / "", order, behind)).digest);
  EXPECT_LE(over_http.fetched(), 2 * 200 * kFrame);
}

// S-FETCH-2.
TEST_F(HttpRangesTest, WindowsThatTheBudgetHasNoRoomForAreRefusedWithTheNumbers) {
  const readers::ScriptServer server({Serve()});
  RequestsOfIndexing(server);
  budget_ = 300'000;
  const auto open = [&](const std::string& order) {
    ContextOptions context_options;
    context_options.memory_budget_bytes = budget_;
    return Pipeline::Open(Make(PlanOf(server.Url(""), order, "")),
                          MakeContext(context_options).value(), options_)
        .status();
  };
  EXPECT_MESSAGE(open("stage { global_shuffle { block_bytes: 10160 } }"));
  EXPECT_MESSAGE(open("stage { global_shuffle { block_bytes: 10160 window: 100 } }"));
  EXPECT_TRUE(open("stage { global_shuffle { block_bytes: 10160 window: 40 } }").ok());
}

// S-FETCH-1.
TEST_F(HttpRangesTest, RanksFetchTheirOwnRecords) {
  const readers::ScriptServer server({Serve()});
  const size_t skip = RequestsOfIndexing(server);
  options_.world = 2;
  for (const char* order : {"", "stage { global_shuffle {} }",
                            "stage { global_shuffle { block_bytes: 20320 window: 50 } }"}) {
    const size_t before = std::max(skip, server.requests().size());
    for (options_.rank = 0; options_.rank < 2; ++options_.rank) {
      const Outcome outcome = Drain(PlanOf(server.Url(""), order, ""));
      EXPECT_EQ(outcome.samples, 100u);
      EXPECT_EQ(outcome.fetched(), 100 * kFrame);
    }
    ExpectOnce(Asked(server, before));
  }
}

// A rank of padded batches may read a record of its own twice.
// S-FETCH-1, S-CUT-20.
TEST_F(HttpRangesTest, RanksOfPaddedBatchesFetchTheirOwnRecordsToo) {
  const readers::ScriptServer server({Serve()});
  RequestsOfIndexing(server);
  const auto padded = [](const std::string& where) {
    return absl::StrReplaceAll(
        PlanOf(where, "", ""),
        {{"shape: 125", "shape: -1"}, {"stage { batch { size", "stage { padded_batch { size"}});
  };
  options_.world = 2;
  for (options_.rank = 0; options_.rank < 2; ++options_.rank) {
    const size_t before = server.requests().size();
    const Outcome outcome = Drain(padded(server.Url("")));
    EXPECT_EQ(outcome.samples, 100u);
    EXPECT_EQ(outcome.digest, Drain(padded(folder_ / "")).digest);
    for (const auto& [shard, counts] : TimesAsked(Asked(server, before))) {
      for (int64_t i = 0; i < kShardRecords; ++i) {
        const bool own = i % 10 / 5 == options_.rank;
        EXPECT_THAT(counts[i], own ? AllOf(Ge(1), Le(2)) : AllOf(Ge(0), Le(0))) << shard << i;
      }
    }
  }
}

TEST_F(HttpRangesTest, AStreamThatGoesOnInTheMiddleFetchesTheRest) {
  const readers::ScriptServer server({Serve()});
  const std::string plan =
      PlanOf(server.Url(""), "stage { global_shuffle { block_bytes: 20320 window: 60 } }", "");
  const auto pipeline_of = [&] {
    return Pipeline::Open(Make(plan), MakeContext().value(), options_).value();
  };
  {
    const auto whole = pipeline_of();  // to its end, so that nothing is under way
    for (auto batch = *whole->Next(); batch.has_value(); batch = *whole->Next()) {
      if (batch->index() == 11) options_.resume_token = batch->resume_token();
    }
  }
  const size_t skip = server.requests().size();
  const auto pipeline = pipeline_of();
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(pipeline->Next().value().has_value());
  ASSERT_FALSE(pipeline->Next().value().has_value());
  // Windows have three blocks of 20 records: row 120 begins one, and the last has a block.
  EXPECT_EQ(TimesAskedOnce(server, skip), 80);
  const size_t again = server.requests().size();
  ASSERT_TRUE(pipeline->Seek(19).ok());
  ASSERT_TRUE(pipeline->Next().value().has_value());
  EXPECT_LE(TimesAskedOnce(server, again), 20);
}

// Keeps the records with an even number.
constexpr char kEven[] = "stage { filter { predicate: \"x[0] % 2 == 0\" } }";

// S-FETCH-3.
TEST_F(HttpRangesTest, AFilterReadsEachBlockOnceAnEpochToo) {
  const readers::ScriptServer server({Serve()});
  const size_t skip = RequestsOfIndexing(server);
  const std::string order = "stage { global_shuffle { block_bytes: 10160 window: 40 } }";
  const std::string behind = "stage { repeat { epochs: 2 } }";
  const Outcome over_http = Drain(PlanOf(server.Url(""), order, behind, kEven));
  EXPECT_EQ(over_http.samples, 200u);
  const auto asked = Asked(server, skip);
  // Of the records that are left, pass 2 may have to read one again, by itself.
  const auto times = TimesAsked(asked);
  int64_t blocks = 0;
  for (const auto& [shard, counts] : times) {
    for (size_t i = 1; i < counts.size(); i += 2) EXPECT_THAT(counts[i], AllOf(Ge(1), Le(2)));
    blocks += std::ranges::count_if(asked.at(shard), [](const Stretch& stretch) {
      return stretch.second - stretch.first > kFrame;
    });
  }
  EXPECT_LE(blocks, 2 * 20) << "a request a block";
  EXPECT_EQ(over_http.digest, Drain(PlanOf(folder_ / "", order, behind, kEven)).digest);
}

// S-FETCH-3.
TEST_F(HttpRangesTest, WhereLanesLookAtRecordsEachIsFetchedByItself) {
  const readers::ScriptServer server({Serve()});
  const size_t skip = RequestsOfIndexing(server);
  const Outcome outcome =
      Drain("lanes: 2\n" + PlanOf(server.Url(""), "stage { global_shuffle {} }", "", kEven));
  EXPECT_EQ(outcome.samples, 100u);
  for (const auto& [shard, counts] : TimesAsked(Asked(server, skip))) {
    for (size_t i = 1; i < counts.size(); i += 2) EXPECT_EQ(counts[i], 1);
  }
}

// S-FETCH-3.
TEST_F(HttpRangesTest, AFilteredStreamGoesOnFromATokenInTheMiddle) {
  const readers::ScriptServer server({Serve()});
  RequestsOfIndexing(server);
  const std::string plan =
      PlanOf(server.Url(""), "stage { global_shuffle { block_bytes: 10160 } }", "", kEven);
  const auto context = MakeContext().value();
  const auto whole = Pipeline::Open(Make(plan), context, options_).value();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(whole->Next().value().has_value());
  OpenOptions rest = options_;
  rest.resume_token = whole->Save();
  const auto resumed = Pipeline::Open(Make(plan), context, rest).value();
  while (true) {
    const auto left = whole->Next().value();
    const auto right = resumed->Next().value();
    ASSERT_EQ(left.has_value(), right.has_value());
    if (!left.has_value()) break;
    StreamDigest of_left, of_right;
    of_left.Add(*left);
    of_right.Add(*right);
    EXPECT_EQ(of_left.value(), of_right.value());
  }
}

// S-FETCH-1.
TEST_F(HttpRangesTest, ElementsOfShuffledWindowsAreFetchedByThemselvesAndOnce) {
  const readers::ScriptServer server({Serve()});
  const size_t skip = RequestsOfIndexing(server);
  const std::string windows = "stage { window { size: 4 } }\n";
  const std::pair<std::string, std::string> orders[] = {
      {"", windows + "stage { global_shuffle {} }"},
      {"stage { global_shuffle {} }", windows},
      {"stage { global_shuffle { block_bytes: 20320 window: 60 } }", windows},
      {"", windows + "stage { global_shuffle { block_bytes: 20320 window: 15 } }"}};
  for (const auto& [front, behind] : orders) {
    const size_t before = std::max(skip, server.requests().size());
    const Outcome over_http = Drain(PlanOf(server.Url(""), front, "", behind));
    EXPECT_EQ(over_http.samples, 50u);
    const auto asked = Asked(server, before);
    ExpectOnce(asked);
    const bool has_blocks = absl::StrContains(front + behind, "block_bytes");
    EXPECT_LE(asked.at("a").size() + asked.at("b").size(), has_blocks ? 40u : 200u);
    EXPECT_EQ(over_http.records(), 200 * kFrame);
    EXPECT_EQ(over_http.fetched(), 200 * kFrame);
    EXPECT_EQ(over_http.digest, Drain(PlanOf(folder_ / "", front, "", behind)).digest);
  }
}

// S-FETCH-1: elements that windows near each other share.
TEST_F(HttpRangesTest, WindowsThatOverlapFetchWhatTheyShareOnce) {
  const readers::ScriptServer server({Serve()});
  const size_t skip = RequestsOfIndexing(server);
  const std::string near =
      "stage { window { size: 5 shift: 1 drop_remainder: true } }\n"
      "stage { global_shuffle { block_bytes: 101600 } }";  // blocks of 20 windows, all in one
  const Outcome over_http = Drain(PlanOf(server.Url(""), "", "", near));
  EXPECT_EQ(over_http.samples, 196u);
  ExpectOnce(Asked(server, skip));
  EXPECT_EQ(over_http.fetched(), 200 * kFrame);
  EXPECT_EQ(over_http.digest, Drain(PlanOf(folder_ / "", "", "", near)).digest);
}

// S-FETCH-4.
TEST_F(HttpRangesTest, ExplainSaysWhatIsFetched) {
  const readers::ScriptServer server({Serve()});
  options_.http.block_bytes = 4 << 20;
  const auto fetch_line = [&](const std::string& order) {
    return FetchLine(PlanOf(server.Url(""), order, ""));
  };
  EXPECT_THAT(fetch_line(""), HasSubstr("1.00 bytes for each byte of records: blocks of 4.0 MiB"));
  EXPECT_THAT(fetch_line("stage { global_shuffle {} }"),
              HasSubstr("1.00 bytes for each byte of records: each record by itself"));
  EXPECT_THAT(fetch_line("stage { global_shuffle { block_bytes: 20320 window: 60 } }"),
              HasSubstr("each block once, two windows of 59.5 KiB"));
  EXPECT_THAT(fetch_line("stage { shard { num_shards: 4 } }"),
              HasSubstr("4.00 bytes for each byte of records"));
  EXPECT_THAT(fetch_line("stage { shard { num_shards: 4 } }"), HasSubstr("more than 1.5"));
}

// S-FETCH-4: of an input with an end, every rank looks at the records of all.
TEST_F(HttpRangesTest, ExplainKnowsWhetherRanksShareARead) {
  const readers::ScriptServer server({Serve()});
  options_.http.block_bytes = 4 << 20;
  options_.world = 2;
  const auto fetch_line = [&](const std::string& order) {
    return FetchLine("lanes: 2\n" + PlanOf(server.Url(""), order, "", kEven));
  };
  EXPECT_THAT(fetch_line(""), HasSubstr("1.00 bytes for each byte of records: blocks of 4.0 MiB"));
  EXPECT_THAT(fetch_line("stage { repeat {} }"), HasSubstr("2.00 bytes for each byte of records"));
}

// S-FETCH-4.
TEST_F(HttpRangesTest, LocalShardsAreNotCounted) {
  const readers::ScriptServer server({Serve()});
  RequestsOfIndexing(server);
  const std::string plan = PlanOf(server.Url(""), "", "");
  const std::string url = server.Url("a");
  const Outcome outcome = Drain(absl::StrReplaceAll(plan, {{url, std::string(folder_ / "a")}}));
  EXPECT_EQ(outcome.samples, 200u);
  EXPECT_EQ(outcome.records(), 100 * kFrame);
}

// S-FETCH-4.
TEST_F(HttpRangesTest, TheCountIsWhatExplainSays) {
  const readers::ScriptServer server({Serve()});
  RequestsOfIndexing(server);
  const Outcome sharded = Drain(PlanOf(server.Url(""), "stage { shard { num_shards: 4 } }", ""));
  EXPECT_EQ(sharded.samples, 50u);
  EXPECT_EQ(sharded.records(), 50 * kFrame);
  const double ratio =
      static_cast<double>(sharded.fetched()) / static_cast<double>(sharded.records());
  EXPECT_NEAR(ratio, 4, 0.4);
}

}  // namespace
}  // namespace millrace::pipeline
