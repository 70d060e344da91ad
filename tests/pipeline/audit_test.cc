#include "pipeline/audit.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/philox.h"
#include "base/status.h"
#include "pipeline/audit_samples_internal.h"
#include "tests/pipeline/executor_fixture.h"

namespace millrace::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

// A stream of numbers, written down without the pipeline: batches of 8 over epochs of 50 records,
// another order each epoch.
constexpr uint64_t kRecords = 50, kBatch = 8, kBatchesPerEpoch = 7;

AuditBatch Slice(uint64_t index, int rank, int world) {
  AuditBatch batch;
  batch.index = index;
  batch.epoch = index / kBatchesPerEpoch;
  batch.ends_epoch = index % kBatchesPerEpoch == kBatchesPerEpoch - 1;
  const uint64_t first = index % kBatchesPerEpoch * kBatch;
  const uint64_t valid = std::min(kBatch, kRecords - first);
  const auto begin = static_cast<uint64_t>(rank) * kBatch / static_cast<uint64_t>(world);
  const auto end = static_cast<uint64_t>(rank + 1) * kBatch / static_cast<uint64_t>(world);
  batch.first_global_row = static_cast<int64_t>(begin);
  batch.num_rows = static_cast<int64_t>(end - begin);
  batch.num_global_valid_rows = static_cast<int64_t>(valid);
  for (uint64_t row = begin; row < std::min(end, valid); ++row) {
    const uint64_t record = ((first + row) * 7 + batch.epoch * 3) % kRecords;
    batch.visits.push_back({static_cast<int64_t>(row - begin), {batch.epoch, record, 0}});
  }
  return batch;
}

AuditHeader Header(int rank, int world, uint64_t start, uint64_t started_ns) {
  AuditHeader header;
  header.semantics_version = 1;
  header.plan_fingerprint = 0xABCD;
  header.data_fingerprint = 0xDA7A;
  header.rank = rank;
  header.world = world;
  header.start_batch = start;
  header.expected_records = kRecords;
  header.started_ns = started_ns;
  return header;
}

class AuditTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "millrace-audit-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  // One start of a rank: logs batches [start, end). `change` may spoil a slice, or leave it out by
  // returning false. Starts are ordered as they are logged.
  using Change = std::function<bool(AuditBatch&)>;
  void Log(const std::string& name, int rank, int world, uint64_t start, uint64_t end,
           bool end_of_stream = false, const Change& change = {}) {
    auto log = AuditLog::Open(Path(name), Header(rank, world, start, ++clock_));
    ASSERT_TRUE(log.ok()) << log.status();
    for (uint64_t index = start; index < end; ++index) {
      AuditBatch slice = Slice(index, rank, world);
      if (change && !change(slice)) continue;
      ASSERT_TRUE((*log)->Add(slice).ok());
    }
    if (end_of_stream) {
      ASSERT_TRUE((*log)->Finish(end, true).ok());
    }
  }

  AuditReport Check(std::vector<std::string> names, const AuditOptions& options = {}) const {
    for (std::string& name : names) name = Path(name);
    auto report = CheckAudit(names, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : AuditReport();
  }

  std::filesystem::path folder_;
  uint64_t clock_ = 0;
};

std::string Words(const AuditReport& report) {
  return absl::StrCat(absl::StrJoin(report.violations, "\n"), "\nnotes:\n",
                      absl::StrJoin(report.notes, "\n"));
}

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

TEST_F(AuditTest, ABlockThatAKillToreIsCutOffAndDeliveredAgain) {
  // S-VISIT-3.
  Log("a", 0, 1, 0, 5);
  const auto size = std::filesystem::file_size(Path("a"));
  std::filesystem::resize_file(Path("a"), size - 3);
  Log("a", 0, 1, 4, 7, true);
  const AuditReport report = Check({"a"});
  EXPECT_TRUE(report.exactly_once()) << Words(report);
  EXPECT_EQ(report.withdrawn_slices, 0u);
}

TEST_F(AuditTest, ATruncatedLogProvesNothing) {
  // S-VISIT-3: wherever it is cut.
  Log("whole", 0, 1, 0, 7, true);
  std::ifstream in(Path("whole"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  ASSERT_TRUE(Check({"whole"}).proven());
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::ofstream(Path("cut"), std::ios::binary).write(bytes.data(), static_cast<long>(size));
    const AuditReport report = Check({"cut"});
    ASSERT_FALSE(report.proven()) << size;
    if (size > 0) {
      ASSERT_FALSE(report.notes.empty()) << size;
    }
  }
}

TEST_F(AuditTest, ATruncatedLogOfOneRankIsALossWhenAnotherSawTheEnd) {
  // S-VISIT-3.
  Log("a", 0, 2, 0, 7, true);
  Log("b", 1, 2, 0, 7, true);
  std::filesystem::resize_file(Path("b"), std::filesystem::file_size(Path("b")) - 90);
  const AuditReport report = Check({"a", "b"});
  EXPECT_GT(report.num_violations, 0u);
  EXPECT_GT(report.lost_rows, 0u);
  EXPECT_THAT(report.notes, Contains(HasSubstr("torn block")));
}

TEST_F(AuditTest, DamageInTheMiddleIsCaughtAndNeverOverwritten) {
  // S-VISIT-3: every byte counts.
  Log("whole", 0, 1, 0, 7, true);
  std::ifstream in(Path("whole"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (size_t at = 0; at + 60 < bytes.size(); at += 5) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    std::ofstream(Path("bad"), std::ios::binary) << damaged;
    ASSERT_GT(Check({"bad"}).num_violations, 0u) << at;
    ASSERT_FALSE(AuditLog::Open(Path("bad"), Header(0, 1, 0, 5)).ok()) << at;
    ASSERT_EQ(std::filesystem::file_size(Path("bad")), bytes.size());
  }
}

TEST_F(AuditTest, ALogOfAnotherPlanIsRefusedAndCaught) {
  // S-VISIT-4.
  Log("a", 0, 2, 0, 7, true);
  AuditHeader other = Header(1, 2, 0, 5);
  other.plan_fingerprint = 0x1234;
  {
    auto log = AuditLog::Open(Path("b"), other);
    ASSERT_TRUE(log.ok());
    for (uint64_t i = 0; i < 7; ++i) ASSERT_TRUE((*log)->Add(Slice(i, 1, 2)).ok());
  }
  const AuditReport report = Check({"a", "b"});
  EXPECT_FALSE(report.proven());
  EXPECT_THAT(report.violations,
              Contains(AllOf(HasSubstr("does not belong to"), HasSubstr(Path("b")))));
  const auto refused = AuditLog::Open(Path("a"), other);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().message(), HasSubstr("plan"));
}

TEST_F(AuditTest, AFileThatIsNoLogIsNeverTouched) {
  const std::string text = "a file that somebody named by mistake\n";
  std::ofstream(Path("notes.txt")) << text;
  EXPECT_EQ(AuditLog::Open(Path("notes.txt"), Header(0, 1, 0, 1)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::filesystem::file_size(Path("notes.txt")), text.size());
  EXPECT_THAT(Check({"notes.txt"}).violations, Contains(HasSubstr("is no audit log")));
}

TEST_F(AuditTest, ALogIsWrittenByOneAtATime) {
  const auto first = AuditLog::Open(Path("a"), Header(0, 1, 0, 1));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(AuditLog::Open(Path("a"), Header(0, 1, 0, 2)).status().code(),
            absl::StatusCode::kFailedPrecondition);
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

TEST(SampleSetTest, AgreesWithASetOfIds) {
  std::set<std::pair<uint64_t, uint64_t>> oracle;
  SampleSet set;
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const SampleId id = {0, random() % 9000, random() % 3 == 0 ? random() % 200 : 0};
    EXPECT_EQ(set.Insert(id), oracle.insert({id.record, id.sub_index}).second);
  }
  EXPECT_EQ(set.size(), oracle.size());
  for (uint64_t record = 0; record < 9000; ++record) {
    for (const uint64_t sub : {uint64_t{0}, random() % 200}) {
      EXPECT_EQ(set.Contains({5, record, sub}), oracle.contains({record, sub}));
    }
  }
  EXPECT_FALSE(set.Contains({0, ~uint64_t{0}, 0}));
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
