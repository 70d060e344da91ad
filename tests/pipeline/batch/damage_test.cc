#include "pipeline/batch/damage.h"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include "base/metric_table.h"
#include "pipeline/audit.h"
#include "readers/quarantine.h"
#include "tests/messages.h"
#include "tests/pipeline/executor/executor_fixture.h"
#include "tests/temp_folder.h"

// Damaged samples under every policy. The oracle is what the same plan makes of undamaged data. The
// rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

using Policy = DamageSpec::Policy;

// What a row of a batch holds.
struct Row {
  SampleId id;
  int64_t hash = 0;
  float noise = 0;
  friend bool operator==(const Row&, const Row&) = default;
};

Row RowOf(const Batch& batch, int64_t row) {
  const auto at = static_cast<size_t>(row);
  return {batch.ids()[at], batch.Find("hash").as<int64_t>()[2 * at],
          batch.Find("noise").as<float>()[3 * at]};
}

PhysicalPlan PlanWith(Policy policy, uint64_t batch_size, std::vector<OrderStep> order = {}) {
  PhysicalPlan plan = MakePlan(batch_size, std::move(order));
  plan.damage.policy = policy;
  return plan;
}

OpenOptions OfRank(int rank, int world) {
  OpenOptions options;
  options.rank = rank;
  options.world = world;
  return options;
}

std::vector<Batch> AllBatches(Pipeline& pipeline) {
  std::vector<Batch> batches;
  while (true) {
    auto batch = pipeline.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) return batches;
    batches.push_back(**batch);
  }
}

// By record, of a plan that visits each once.
std::map<uint64_t, Row> RowsOfUndamaged(size_t records) {
  std::map<uint64_t, Row> rows;
  const auto pipeline = OpenFake(MakePlan(1), MakeFakeData(records), FakeContext(1));
  ForEachRow(*pipeline, [&](const Batch& batch, int64_t row) {
    rows[batch.ids()[static_cast<size_t>(row)].record] = RowOf(batch, row);
  });
  return rows;
}

FakeData Damaged(size_t records, std::set<uint64_t> bad) {
  FakeData data = MakeFakeData(records);
  data.bad_crc = std::move(bad);
  return data;
}

void ExpectEmpty(const Batch& batch, int64_t row) {
  EXPECT_EQ(RowOf(batch, row), Row());
  EXPECT_EQ(batch.valid()[static_cast<size_t>(row)], 0);
}

// S-DAMAGE-3, S-BATCH-3.
TEST(DamageTest, SkipMovesRowsUpInTheirOrder) {
  const auto want = RowsOfUndamaged(20);
  const auto pipeline =
      OpenFake(PlanWith(Policy::kSkip, 8), Damaged(20, {0, 3, 7, 16, 19}), FakeContext(3));
  const std::vector<Batch> batches = AllBatches(*pipeline);
  ASSERT_EQ(batches.size(), 3u);
  const std::vector<std::vector<uint64_t>> left = {
      {1, 2, 4, 5, 6}, {8, 9, 10, 11, 12, 13, 14, 15}, {17, 18}};
  for (size_t b = 0; b < left.size(); ++b) {
    const Batch& batch = batches[b];
    ASSERT_EQ(batch.num_valid_rows(), static_cast<int64_t>(left[b].size()));
    EXPECT_EQ(batch.num_global_valid_rows(), b == 2 ? 4 : 8);
    for (size_t row = 0; row < left[b].size(); ++row) {
      EXPECT_EQ(RowOf(batch, static_cast<int64_t>(row)), want.at(left[b][row]));
      EXPECT_EQ(batch.valid()[row], 1);
    }
    for (int64_t row = batch.num_valid_rows(); row < 8; ++row) ExpectEmpty(batch, row);
  }
  ASSERT_EQ(batches[0].damaged().size(), 3u);
  const DamagedSample& one = batches[0].damaged()[1];
  EXPECT_EQ(one.id.record, 3u);
  EXPECT_EQ(one.row, 6);  // empty for it
  EXPECT_EQ(GetRecordError(one.error)->position, 3);
  EXPECT_EQ(GetRecordError(one.error)->reason, RecordErrorReason::kDataCrc);
}

// S-DAMAGE-4.
TEST(DamageTest, MaskLeavesTheRowEmpty) {
  const auto want = RowsOfUndamaged(12);
  const std::set<uint64_t> bad = {2, 9};
  const auto context = FakeContext(2);
  const auto pipeline = OpenFake(PlanWith(Policy::kMask, 5), Damaged(12, bad), context);
  for (const Batch& batch : AllBatches(*pipeline)) {
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      const uint64_t record = batch.index() * 5 + static_cast<uint64_t>(row);
      if (record >= 12 || bad.contains(record)) {
        ExpectEmpty(batch, row);
      } else {
        EXPECT_EQ(RowOf(batch, row), want.at(record));
      }
    }
  }
  EXPECT_EQ(context->metrics().counter(metric::kRecordsBad).value(), 2);
  EXPECT_EQ(context->metrics().counter(metric::kRecordsDamaged, "data_crc").value(), 2);
}

// S-DAMAGE-5: a substitute is what its record gives elsewhere, for every world and thread.
TEST(DamageTest, ReplacePutsTheFirstGoodCandidateThere) {
  constexpr size_t kRecords = 12;
  const auto want = RowsOfUndamaged(kRecords);
  const std::set<uint64_t> bad = {0, 1, 2, 4, 5, 6, 8, 9};  // so that candidates are damaged too
  std::map<uint64_t, Row> whole;
  for (const int world : {1, 2, 3}) {
    for (int rank = 0; rank < world; ++rank) {
      const auto pipeline = OpenFake(PlanWith(Policy::kReplace, 6), Damaged(kRecords, bad),
                                     FakeContext(1 + rank), OfRank(rank, world));
      for (const Batch& batch : AllBatches(*pipeline)) {
        for (int64_t row = 0; row < batch.num_valid_rows(); ++row) {
          const Row got = RowOf(batch, row);
          const auto position =
              batch.index() * 6 + static_cast<uint64_t>(batch.first_global_row() + row);
          EXPECT_FALSE(bad.contains(got.id.record));
          EXPECT_EQ(got, want.at(got.id.record));
          EXPECT_EQ(got.id.record == position, !bad.contains(position));
          EXPECT_EQ(whole.emplace(position, got).first->second, got) << "world " << world;
        }
      }
    }
  }
  EXPECT_EQ(whole.size(), kRecords);
}

// S-DAMAGE-5: by hand, with the formula of the rule.
TEST(DamageTest, CandidatesAreDrawnAsTheRuleSays) {
  const DamagedSample damaged{
      .row = 0, .id = {.epoch = 3, .record = 1, .sub_index = 0}, .error = {}};
  std::set<uint64_t> seen;
  for (uint32_t k = 0; k < kMaxCandidates; ++k) {
    uint64_t draw = Mix64(Mix64(Mix64(7) + HashName("on_damage")) + 3);
    draw = Mix64(Mix64(draw + 11) + k);
    const SampleId id = Candidate(7, damaged, 11, k, 1000, nullptr);
    EXPECT_EQ(id.record,
              static_cast<uint64_t>((static_cast<unsigned __int128>(draw) * 1000) >> 64));
    EXPECT_EQ(id.epoch, 3u);
    seen.insert(id.record);
  }
  EXPECT_GT(seen.size(), 10u);
}

// S-DAMAGE-5.
TEST(DamageTest, WithoutAGoodCandidateTheErrorIsTheRowsOwn) {
  std::set<uint64_t> bad;
  for (uint64_t i = 0; i < 10; ++i) bad.insert(i);
  const auto context = FakeContext(2);
  const Stream stream = Drain(*OpenFake(PlanWith(Policy::kReplace, 4), Damaged(10, bad), context));
  EXPECT_TRUE(stream.digests.empty());
  EXPECT_EQ(context->metrics().counter(metric::kRecordsBad).value(), 4)
      << "the rows, not the candidates for them";
  ASSERT_TRUE(GetRecordError(stream.end).has_value()) << stream.end;
  EXPECT_EQ(GetRecordError(stream.end)->position, 0);
  EXPECT_EQ(GetRecordError(stream.end)->ordinal, 0);
}

// S-DAMAGE-1: neither reads that fail nor what user code says without a reason.
TEST(DamageTest, WhatIsNoDamageEndsTheStreamUnderEveryPolicy) {
  for (const Policy policy : {Policy::kSkip, Policy::kMask, Policy::kReplace}) {
    FakeData data = Damaged(20, {4, 11});
    data.io_errors = {12};
    const Stream read = Drain(*OpenFake(PlanWith(policy, 5), data, FakeContext(2)));
    EXPECT_EQ(read.digests.size(), 2u);
    EXPECT_EQ(GetRecordError(read.end)->position, 12) << read.end;

    PhysicalPlan plan = PlanWith(policy, 5);
    plan.ops.push_back(CheckOp([](uint64_t record) { return record != 13; }));
    const Stream op = Drain(*OpenFake(std::move(plan), Damaged(20, {11}), FakeContext(2)));
    EXPECT_EQ(op.digests.size(), 2u);
    EXPECT_EQ(GetRecordError(op.end)->position, 13) << op.end;
  }
}

TEST(DamageTest, OnlyReasonsOfDataAreDamage) {
  const auto make = [](absl::StatusCode code, RecordErrorReason reason) {
    return MakeRecordError(code, {.file = "f", .reason = reason}, "x");
  };
  EXPECT_TRUE(IsDamage(make(absl::StatusCode::kDataLoss, RecordErrorReason::kImage)));
  EXPECT_TRUE(IsDamage(make(absl::StatusCode::kInvalidArgument, RecordErrorReason::kFeature)));
  EXPECT_FALSE(IsDamage(make(absl::StatusCode::kDataLoss, RecordErrorReason::kUnknown)));
  EXPECT_FALSE(IsDamage(make(absl::StatusCode::kInternal, RecordErrorReason::kValue)));
  EXPECT_FALSE(IsDamage(make(absl::StatusCode::kResourceExhausted, RecordErrorReason::kImage)));
  EXPECT_FALSE(IsDamage(absl::UnavailableError("EIO")));
}

// S-DAMAGE-2, S-RANK-2, S-RANDOM-2.
TEST(DamageTest, StreamIsTheSameForEveryThreadPrefetchAndWorld) {
  const std::set<uint64_t> bad = {1, 5, 6, 7, 22, 30, 31, 39, 40};
  for (const Policy policy : {Policy::kSkip, Policy::kMask, Policy::kReplace}) {
    std::map<int, std::vector<uint64_t>> digests;  // by world, of each batch
    for (const int threads : {1, 2, 4}) {
      for (const int world : {1, 3}) {
        std::vector<uint64_t> sums;
        for (int rank = 0; rank < world; ++rank) {
          OpenOptions options = OfRank(rank, world);
          options.prefetch_batches = threads;
          const Stream stream =
              Drain(*OpenFake(PlanWith(policy, 7, {Step(OrderStep::Kind::kShuffle, 9)}),
                              Damaged(41, bad), FakeContext(threads), options));
          EXPECT_TRUE(stream.end.ok()) << stream.end;
          sums.resize(stream.digests.size(), 0);
          for (size_t i = 0; i < sums.size(); ++i) sums[i] += stream.digests[i];
        }
        EXPECT_EQ(digests.emplace(world, sums).first->second, sums) << threads;
      }
    }
    // Where rows that move up stand depends on the slice.
    EXPECT_EQ(digests[1] == digests[3], policy != Policy::kSkip);
  }
}

// S-DAMAGE-2, S-STATE-1.
TEST(DamageTest, ResumingAtAnyBatchGivesTheRest) {
  for (const Policy policy : {Policy::kSkip, Policy::kMask, Policy::kReplace}) {
    const FakeData data = Damaged(30, {0, 4, 5, 17, 29});
    const auto open = [&](std::string token) {
      OpenOptions options;
      options.resume_token = std::move(token);
      return OpenFake(PlanWith(policy, 4), data, FakeContext(2), options);
    };
    const Stream whole = Drain(*open(""));
    ASSERT_EQ(whole.digests.size(), 8u);
    for (size_t i = 0; i < whole.tokens.size(); ++i) {
      const Stream rest = Drain(*open(whole.tokens[i]));
      EXPECT_TRUE(std::ranges::equal(rest.digests, std::span(whole.digests).subspan(i + 1)));
    }
  }
}

// S-DAMAGE-6.
TEST(DamageTest, BudgetByCountEndsTheStreamAtItsBatch) {
  for (const int threads : {1, 3}) {
    PhysicalPlan plan = PlanWith(Policy::kMask, 5);
    plan.damage.max_count = 2;
    const auto context = FakeContext(threads);
    const auto pipeline = OpenFake(std::move(plan), Damaged(40, {3, 12, 13, 22}), context);
    const std::string before = [&] {
      auto first = pipeline->Next();
      auto second = pipeline->Next();
      EXPECT_FALSE((*first)->damaged().empty());
      return (*second)->resume_token();
    }();
    const absl::Status end = pipeline->Next().status();
    EXPECT_EQ(end.code(), absl::StatusCode::kDataLoss);
    EXPECT_MESSAGE(end);
    EXPECT_EQ(GetRecordError(end)->position, 13);
    EXPECT_EQ(pipeline->Next().status(), end);
    EXPECT_EQ(pipeline->Save(), before);
    EXPECT_EQ(context->metrics().counter(metric::kRecordsBad).value(), 1)
        << "of the batches that were delivered";
    // Counted anew from there.
    ASSERT_TRUE(pipeline->Restore(before).ok());
    EXPECT_EQ((*pipeline->Next())->damaged().size(), 2u);
  }
}

// S-DAMAGE-6.
TEST(DamageTest, BudgetByShareCountsFromItsFloorOn) {
  std::set<uint64_t> bad;
  for (uint64_t i = 0; i < 60; ++i) bad.insert(2 * i);
  for (const Policy policy : {Policy::kSkip, Policy::kReplace}) {
    PhysicalPlan plan = PlanWith(policy, 100);
    plan.damage.max_share = 0.05;
    const Stream stream = Drain(*OpenFake(std::move(plan), Damaged(1500, bad), FakeContext(2)));
    EXPECT_EQ(stream.digests.size(), 9u);  // the tenth makes them a thousand
    EXPECT_MESSAGE(stream.end);
    EXPECT_EQ(GetRecordError(stream.end)->position, 118);
  }
}

// S-DAMAGE-7, S-VISIT-5.
TEST(DamageTest, AuditAccountsForEverySample) {
  const std::set<uint64_t> bad = {0, 4, 11};
  for (const Policy policy : {Policy::kSkip, Policy::kMask, Policy::kReplace}) {
    const auto pipeline = OpenFake(PlanWith(policy, 6), Damaged(12, bad), FakeContext(2));
    std::set<uint64_t> visited, replaced;
    for (const Batch& batch : AllBatches(*pipeline)) {
      const AuditBatch slice = MakeAuditBatch(batch);
      std::set<int64_t> rows;
      for (const AuditVisit& visit : slice.visits) {
        EXPECT_TRUE(rows.insert(visit.row).second);
        EXPECT_TRUE(visited.insert(visit.id.record).second);
      }
      for (const AuditReplaced& one : slice.replaced) {
        EXPECT_TRUE(rows.insert(one.row).second);
        EXPECT_TRUE(replaced.insert(one.id.record).second);
        EXPECT_EQ(one.reason, RecordErrorReason::kDataCrc);
      }
      EXPECT_EQ(rows.size(), 6u);
    }
    EXPECT_EQ(replaced, bad);
    EXPECT_EQ(visited.size(), 9u);
  }
}

// S-DAMAGE-7: in the order of delivery, each record once, the error that ends the stream too.
TEST(DamageTest, QuarantineNamesEachDamagedRecordOnce) {
  const TempFolder folder;
  OpenOptions options;
  options.quarantine_file = folder / "q.jsonl";
  FakeData data = Damaged(20, {3, 8, 13});
  data.io_errors = {19};
  for (const Policy policy : {Policy::kMask, Policy::kReplace, Policy::kFail}) {
    const Stream stream = Drain(*OpenFake(PlanWith(policy, 5), data, FakeContext(2), options));
    EXPECT_FALSE(stream.end.ok());
    const auto read = readers::ReadQuarantine(options.quarantine_file);
    ASSERT_TRUE(read.ok()) << read.status();
    std::vector<int64_t> positions;
    for (const RecordError& error : *read) positions.push_back(error.position);
    EXPECT_THAT(positions, testing::ElementsAre(3, 8, 13));
    EXPECT_EQ((*read)[1].file, "shard-1");
    EXPECT_EQ((*read)[1].ordinal, 1);
  }
  options.quarantine_file = folder / "fail.jsonl";
  Drain(*OpenFake(PlanWith(Policy::kFail, 5), data, FakeContext(2), options));
  EXPECT_EQ(readers::ReadQuarantine(options.quarantine_file)->size(), 1u);
}

// S-DAMAGE-7: what cannot be written down is not delivered.
TEST(DamageTest, BatchIsNotDeliveredWithoutItsLines) {
  const TempFolder folder;
  OpenOptions options;
  options.quarantine_file = folder / "q.jsonl";
  const auto pipeline =
      OpenFake(PlanWith(Policy::kMask, 5), Damaged(20, {8}), FakeContext(2), options);
  const auto first = pipeline->Next();
  ASSERT_TRUE(first.ok()) << first.status();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  const absl::Status end = pipeline->Next().status();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_MESSAGE(end) << end;
  EXPECT_EQ(pipeline->Next().status(), end);
  EXPECT_EQ(pipeline->Save(), (*first)->resume_token());
}

}  // namespace
}  // namespace millrace::pipeline
