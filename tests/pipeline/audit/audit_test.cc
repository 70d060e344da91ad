#include "pipeline/audit.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/pipeline/audit/audit_fixture.h"
#include "tests/pipeline/executor/executor_fixture.h"

// What a set of whole logs proves. Logs that are torn, damaged or of another stream are in
// audit_log_test.cc.

namespace millrace::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

// The number of a sample at a place of the stream.
uint64_t RecordAt(uint64_t index, uint64_t row) { return Slice(index, 0, 1).visits[row].id.record; }

TEST_F(AuditTest, AWholeRunIsProven) {
  // S-VISIT-1.
  Log("a", 0, 2, 0, 14, true);
  Log("b", 1, 2, 0, 14, true);
  const AuditReport report = Check({"a", "b"});
  EXPECT_TRUE(report.proven()) << Words(report);
  EXPECT_TRUE(report.exactly_once());
  EXPECT_EQ(report.visits, 100u);
  EXPECT_EQ(report.batches, 14u);
  ASSERT_EQ(report.epochs.size(), 2u);
  for (const AuditEpoch& epoch : report.epochs) {
    EXPECT_TRUE(epoch.finished);
    EXPECT_EQ(epoch.visited, kRecords);
    EXPECT_EQ(epoch.expected, kRecords);
  }
  EXPECT_TRUE(report.notes.empty()) << Words(report);
}

TEST_F(AuditTest, AnInjectedDuplicateIsCaughtWithBothPlaces) {
  // S-VISIT-1.
  const uint64_t twice = RecordAt(1, 2);
  Log("a", 0, 1, 0, 7, true, [&](AuditBatch& batch) {
    if (batch.index == 4) batch.visits[5].id.record = twice;
    return true;
  });
  const AuditReport report = Check({"a"});
  EXPECT_FALSE(report.proven());
  EXPECT_EQ(report.epochs[0].duplicates, 1u);
  EXPECT_EQ(report.epochs[0].lost, 1u);  // the one in whose place it stands
  EXPECT_THAT(
      report.violations,
      Contains(AllOf(HasSubstr(absl::StrCat("sample ", twice, " was visited more than once")),
                     HasSubstr("batch 1 row 2"), HasSubstr("batch 4 row 5"))));
  EXPECT_THAT(
      report.violations,
      Contains(HasSubstr(absl::StrCat("1 of 50 records were not visited: ", RecordAt(4, 5)))));
}

TEST_F(AuditTest, ADuplicateInAnEpochThatIsOverIsCaught) {
  Log("a", 0, 1, 0, 14, true, [&](AuditBatch& batch) {
    if (batch.index == 9) batch.visits[0].id = {0, 17, 0};
    return true;
  });
  const AuditReport report = Check({"a"});
  EXPECT_EQ(report.epochs[0].duplicates, 1u) << Words(report);
  EXPECT_EQ(report.epochs[1].lost, 1u);
}

TEST_F(AuditTest, ASampleThatComesBehindABatchOfTheNextEpochIsNoDuplicate) {
  // S-VISIT-1: as out of a shuffle behind a repeat, or from a lane that lags.
  Log("late", 0, 1, 0, 14, true, [](AuditBatch& batch) {
    if (batch.index == 6) batch.visits[0].id = Slice(8, 0, 1).visits[0].id;
    if (batch.index == 8) batch.visits[0].id = Slice(6, 0, 1).visits[0].id;
    return true;
  });
  const AuditReport report = Check({"late"});
  EXPECT_TRUE(report.exactly_once()) << Words(report);
  EXPECT_EQ(report.finished_epochs(), 2u);
}

TEST_F(AuditTest, AnInjectedLossIsCaughtWithItsIdsBatchRankAndFile) {
  // S-VISIT-1.
  Log("a", 0, 2, 0, 7, true);
  Log("b", 1, 2, 0, 7, true, [](AuditBatch& batch) { return batch.index != 3; });
  const AuditReport report = Check({"a", "b"});
  EXPECT_FALSE(report.proven());
  EXPECT_EQ(report.epochs[0].lost, 4u);
  EXPECT_EQ(report.lost_rows, 4u);
  EXPECT_THAT(report.violations, Contains(AllOf(HasSubstr("batch 3: 4 rows are missing"),
                                                HasSubstr("rank 1 of 2"), HasSubstr(Path("b")))));
  std::vector<uint64_t> lost;
  for (uint64_t row = 4; row < 8; ++row) lost.push_back(RecordAt(3, row));
  std::ranges::sort(lost);
  EXPECT_THAT(report.violations,
              Contains(HasSubstr(
                  absl::StrCat("4 of 50 records were not visited: ", absl::StrJoin(lost, ", ")))));
}

TEST_F(AuditTest, ALostRowOfABatchIsCaught) {
  Log("a", 0, 1, 0, 7, true, [](AuditBatch& batch) {
    if (batch.index == 2) batch.visits.pop_back();
    return true;
  });
  const AuditReport report = Check({"a"});
  EXPECT_EQ(report.lost_rows, 1u);
  EXPECT_EQ(report.epochs[0].lost, 1u);
}

TEST_F(AuditTest, ABatchOfOneStartThatIsLoggedTwiceIsCaught) {
  Log("a", 0, 1, 0, 3);
  {
    auto log = AuditLog::Open(Path("b"), Header(0, 1, 0, 9));
    ASSERT_TRUE(log.ok());
    for (const uint64_t index : {0, 1, 1, 2, 3, 4, 5, 6}) {
      ASSERT_TRUE((*log)->Add(Slice(index, 0, 1)).ok());
    }
    ASSERT_TRUE((*log)->Finish(7, true).ok());
  }
  const AuditReport report = Check({"b"});
  EXPECT_EQ(report.epochs[0].duplicates, 8u);
  EXPECT_THAT(report.violations, Contains(HasSubstr("batch 1: row 0 was delivered twice")));
}

TEST_F(AuditTest, ARestartTakesBackWhatItDeliversAgain) {
  // S-VISIT-2.
  Log("a", 0, 1, 0, 5);
  Log("a", 0, 1, 3, 6);
  Log("a", 0, 1, 4, 7, true);
  const AuditReport report = Check({"a"});
  EXPECT_TRUE(report.exactly_once()) << Words(report);
  EXPECT_EQ(report.starts, 3u);
  EXPECT_EQ(report.withdrawn_slices, 4u);  // 3 and 4 of the first start, 4 and 5 of the second
  EXPECT_EQ(report.visits, kRecords);
}

TEST_F(AuditTest, APipelineThatIsMovedTakesBackWhatItDeliversAgain) {
  // S-VISIT-2.
  auto log = AuditLog::Open(Path("a"), Header(0, 1, 0, 1));
  ASSERT_TRUE(log.ok());
  for (uint64_t i = 0; i < 5; ++i) ASSERT_TRUE((*log)->Add(Slice(i, 0, 1)).ok());
  ASSERT_TRUE((*log)->Restart(2).ok());
  for (uint64_t i = 2; i < 7; ++i) ASSERT_TRUE((*log)->Add(Slice(i, 0, 1)).ok());
  ASSERT_TRUE((*log)->Finish(7, true).ok());
  const AuditReport report = Check({"a"});
  EXPECT_TRUE(report.exactly_once()) << Words(report);
  EXPECT_EQ(report.withdrawn_slices, 3u);
}

TEST_F(AuditTest, ARestartBehindWhatWasDeliveredIsALoss) {
  // S-VISIT-2: batch 3 was taken back by the second start, and the third goes on behind it.
  Log("a", 0, 1, 0, 5);
  Log("a", 0, 1, 3, 3);
  Log("a", 0, 1, 5, 7, true);
  const AuditReport report = Check({"a"});
  EXPECT_FALSE(report.proven());
  EXPECT_THAT(report.violations, Contains(HasSubstr("batch 3 to 4: all rows are missing")));
  EXPECT_EQ(report.epochs[0].lost, 16u);
}

TEST_F(AuditTest, ARestartAtAnotherWorldTakesBackEveryRank) {
  // S-VISIT-2.
  Log("r0", 0, 2, 0, 6);
  Log("r1", 1, 2, 0, 4);
  Log("r0", 0, 1, 3, 8);
  Log("r0", 0, 3, 5, 14, true);
  Log("r1", 1, 3, 5, 14, true);
  Log("r2", 2, 3, 5, 14, true);
  const AuditReport report = Check({"r2", "r0", "r1"});
  EXPECT_TRUE(report.exactly_once()) << Words(report);
  EXPECT_EQ(report.visits, 2 * kRecords);
  EXPECT_EQ(report.withdrawn_slices, 3u + 1u + 3u);
}

TEST_F(AuditTest, RanksOfOneWorldMayGoOnFromTokensOfTheirOwn) {
  // S-VISIT-2.
  Log("r0", 0, 2, 0, 6);
  Log("r1", 1, 2, 0, 4);
  Log("r0", 0, 2, 5, 7, true);
  Log("r1", 1, 2, 4, 7, true);
  const AuditReport report = Check({"r0", "r1"});
  EXPECT_TRUE(report.exactly_once()) << Words(report);
}

TEST_F(AuditTest, AMissingRankIsCaught) {
  // S-VISIT-4.
  Log("a", 0, 2, 0, 7, true);
  const AuditReport report = Check({"a"});
  EXPECT_THAT(report.violations, Contains(HasSubstr("no log of rank 1 of 2")));
  EXPECT_FALSE(report.proven());
}

TEST_F(AuditTest, RanksThatAreNotEquallyFarAreNoViolation) {
  // S-VISIT-1: what is under way is not lost.
  Log("a", 0, 2, 0, 10);
  Log("b", 1, 2, 0, 8);
  const AuditReport report = Check({"a", "b"});
  EXPECT_TRUE(report.exactly_once()) << Words(report);
  ASSERT_EQ(report.epochs.size(), 2u);
  EXPECT_TRUE(report.epochs[0].finished);
  EXPECT_FALSE(report.epochs[1].finished);
  EXPECT_THAT(report.notes, Contains(HasSubstr("batch 8 and those behind it")));
}

TEST_F(AuditTest, AReplacedSampleIsAccountedForOnceWithItsReason) {
  // S-VISIT-5.
  const auto replace = [](AuditBatch& batch) {
    if (batch.index != 2) return true;
    batch.replaced.push_back(
        {batch.visits[3].row, batch.visits[3].id, RecordErrorReason::kDataCrc});
    batch.visits.erase(batch.visits.begin() + 3);
    return true;
  };
  Log("a", 0, 1, 0, 7, true, replace);
  AuditReport report = Check({"a"});
  EXPECT_TRUE(report.exactly_once()) << Words(report);
  EXPECT_EQ(report.replaced, 1u);
  EXPECT_EQ(report.visits, kRecords - 1);
  EXPECT_EQ(report.epochs[0].replaced, 1u);
  EXPECT_THAT(report.notes, Contains(HasSubstr("1 samples were replaced: ")));

  Log("b", 0, 1, 0, 7, true, [&](AuditBatch& batch) {
    replace(batch);
    if (batch.index == 5) batch.visits[0].id = {0, RecordAt(2, 3), 0};  // counted as a visit too
    return true;
  });
  report = Check({"b"});
  EXPECT_EQ(report.epochs[0].duplicates, 1u);
}

TEST_F(AuditTest, WithoutAKnownSetAtMostOnceIsChecked) {
  // S-VISIT-1.
  const auto log = [&](const std::string& name, uint64_t twice) {
    AuditHeader header = Header(0, 1, 0, 1);
    header.expected_records.reset();
    auto file = AuditLog::Open(Path(name), header);
    ASSERT_TRUE(file.ok());
    for (uint64_t i = 0; i < 7; ++i) {
      AuditBatch batch = Slice(i, 0, 1);
      std::erase_if(batch.visits, [](const AuditVisit& v) { return v.id.record % 2 == 1; });
      for (AuditVisit& visit : batch.visits) visit.id.sub_index = visit.id.record % 3;
      batch.num_global_valid_rows = static_cast<int64_t>(batch.visits.size());
      if (i == 6 && twice > 0) batch.visits[0].id = {0, twice, twice % 3};
      ASSERT_TRUE((*file)->Add(batch).ok());
    }
    ASSERT_TRUE((*file)->Finish(7, true).ok());
  };
  log("a", 0);
  AuditReport report = Check({"a"});
  EXPECT_TRUE(report.proven()) << Words(report);
  EXPECT_FALSE(report.exactly_once());
  log("b", RecordAt(0, 0) == 0 ? 14 : RecordAt(0, 0));
  EXPECT_EQ(Check({"b"}).epochs[0].duplicates, 1u);

  AuditOptions given;
  given.expected = [](uint64_t, const std::function<void(const SampleId&)>& expect) {
    for (uint64_t record = 0; record < kRecords; record += 2) expect({0, record, record % 3});
  };
  report = Check({"a"}, given);
  EXPECT_TRUE(report.exactly_once()) << Words(report);
  report = Check({"b"}, given);
  EXPECT_EQ(report.epochs[0].lost, 1u);
  given.expected = [](uint64_t, const std::function<void(const SampleId&)>& expect) {
    for (uint64_t record = 0; record < 48; record += 2) expect({0, record, record % 3});
  };
  report = Check({"a"}, given);
  EXPECT_EQ(report.epochs[0].unexpected, 1u);
  EXPECT_FALSE(report.proven());
}

TEST_F(AuditTest, ARecordThatTheSourceDoesNotHaveIsCaught) {
  Log("a", 0, 1, 0, 7, true, [](AuditBatch& batch) {
    if (batch.index == 0) batch.visits[0].id.record = kRecords + 10;
    return true;
  });
  EXPECT_EQ(Check({"a"}).epochs[0].unexpected, 1u);
}

TEST_F(AuditTest, NoFilesAndNoVisitsAreNoProof) {
  EXPECT_EQ(CheckAudit({}).status().code(), absl::StatusCode::kInvalidArgument);
  std::ofstream(Path("empty")).flush();
  EXPECT_FALSE(Check({"empty"}).proven());
  Log("started", 0, 1, 0, 0);
  EXPECT_FALSE(Check({"started"}).proven());
}

TEST_F(AuditTest, RandomKillsAndWorldsAreProvenAndOneSpoiltSampleIsNot) {
  // S-VISIT-2: each run is killed anywhere, goes on at any world from any token saved so far.
  std::mt19937 random(4);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  for (int round = 0; round < 40; ++round) {
    const std::string prefix = absl::StrCat("run", round, "-");
    const bool spoil = round % 2 == 1;
    uint64_t start = 0;
    int most = 0;
    for (bool done = false; !done;) {
      const int world = 1 + static_cast<int>(below(4));
      most = std::max(most, world);
      done = start + 6 > 21 || below(6) == 0;
      uint64_t token = 21;
      for (int rank = 0; rank < world; ++rank) {
        const uint64_t end = done ? 21 : std::min<uint64_t>(21, start + below(7));
        Log(absl::StrCat(prefix, rank), rank, world, start, end, done, [&](AuditBatch& batch) {
          // A batch of the last start, so that nothing takes it back.
          if (spoil && done && batch.index == 20 && rank == 0) batch.visits[0].id.record ^= 1;
          return true;
        });
        token = std::min(token, end);
      }
      start = below(token + 1);
    }
    std::vector<std::string> names;
    for (int rank = 0; rank < most; ++rank) names.push_back(absl::StrCat(prefix, rank));
    std::ranges::shuffle(names, random);
    const AuditReport report = Check(names);
    if (spoil) {
      EXPECT_EQ(report.epochs[2].duplicates, 1u) << round;
      EXPECT_FALSE(report.proven());
    } else {
      EXPECT_TRUE(report.exactly_once()) << round << "\n" << Words(report);
    }
  }
}

TEST_F(AuditTest, ARunningPipelineOverAllWorldsAndStopsIsProven) {
  // S-VISIT-1, S-VISIT-2: stop after every batch, go on at another world.
  const FakeData data = MakeFakeData(23);
  const auto plan = [] {
    return MakePlan(4, {Step(OrderStep::Kind::kGlobalShuffle), Step(OrderStep::Kind::kRepeat, 3)});
  };
  std::string token;
  uint64_t next = 0;
  for (int world = 1, done = 0; done == 0; world = world % 4 + 1) {
    for (int rank = 0; rank < world; ++rank) {
      OpenOptions options;
      options.rank = rank;
      options.world = world;
      options.resume_token = token;
      const auto pipeline = OpenFake(plan(), data, FakeContext(2), options);
      AuditHeader header = Header(rank, world, next, ++clock_);
      header.expected_records = pipeline->num_records();
      auto log = AuditLog::Open(Path(absl::StrCat("rank", rank)), header);
      ASSERT_TRUE(log.ok());
      auto batch = pipeline->Next();
      ASSERT_TRUE(batch.ok());
      if (!batch->has_value()) {
        done = 1;
        ASSERT_TRUE((*log)->Finish(next, true).ok());
      } else {
        ASSERT_TRUE((*log)->Add(**batch).ok());
        if (rank == world - 1) token = (*batch)->resume_token();
      }
    }
    ++next;
  }
  const AuditReport report = Check({"rank0", "rank1", "rank2", "rank3"});
  EXPECT_TRUE(report.exactly_once()) << Words(report);
  EXPECT_EQ(report.epochs.size(), 3u);
  EXPECT_EQ(report.visits, 69u);
}

}  // namespace
}  // namespace millrace::pipeline
