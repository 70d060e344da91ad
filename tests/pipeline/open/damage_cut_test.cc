#include <algorithm>
#include <map>
#include <set>

#include "tests/pipeline/cut/cut_plans.h"
#include "tests/pipeline/executor/executor_fixture.h"

// Damaged samples behind a cut: those that pass 1 cannot judge, and those that only pass 2 finds.
// The oracle is the stream of undamaged data, where the damage does not decide what is kept.

namespace millrace::pipeline {
namespace {

using Policy = DamageSpec::Policy;
using Kind = BatchSpec::Kind;

constexpr size_t kRecords = 60;

// Everything a row says, tokens included; how far it is padded left out.
struct Row {
  SampleId id;
  int64_t hash = 0;
  std::vector<int64_t> tokens;
  friend bool operator==(const Row&, const Row&) = default;
};

std::vector<int64_t> TokensOf(const Batch& batch, int64_t row) {
  const auto names = batch.names();
  const auto field = std::ranges::find(names, "tokens") - names.begin();
  if (field == static_cast<ptrdiff_t>(names.size())) return {};
  const Shape own = batch.row_shape(static_cast<size_t>(field), row);
  const auto values = batch.tensor(static_cast<size_t>(field)).as<int64_t>();
  if (own.rank() == 0) return {values[static_cast<size_t>(row)]};
  const ConstTensorView splits = batch.Find("tokens/row_splits");
  const ConstTensorView whole = batch.tensor(static_cast<size_t>(field));
  const int64_t first = splits.data != nullptr ? splits.as<int64_t>()[static_cast<size_t>(row)]
                                               : row * whole.shape[1];
  const auto from = values.begin() + first;
  return {from, from + own[0]};
}

Row RowOf(const Batch& batch, int64_t row) {
  return {batch.ids()[static_cast<size_t>(row)],
          batch.Find("hash").as<int64_t>()[static_cast<size_t>(2 * row)], TokensOf(batch, row)};
}

void ExpectEmpty(const Row& row) {
  EXPECT_EQ(row.id, SampleId());
  EXPECT_EQ(row.hash, 0);
  for (const int64_t token : row.tokens) EXPECT_EQ(token, 0);
}

// One rank's batches, row by row; nullopt: stands empty.
using Rows = std::vector<std::optional<Row>>;
struct Seen {
  std::vector<Rows> batches;
  std::vector<std::vector<uint64_t>> damaged;  // records
};

Seen Drained(PhysicalPlan plan, const FakeData& data, int threads, int rank = 0, int world = 1) {
  OpenOptions options;
  options.rank = rank;
  options.world = world;
  const auto pipeline = OpenFake(std::move(plan), data, FakeContext(threads), options);
  Seen seen;
  while (true) {
    const auto batch = pipeline->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) return seen;
    Rows& rows = seen.batches.emplace_back();
    for (int64_t row = 0; row < (*batch)->num_rows(); ++row) {
      const bool valid = (*batch)->valid()[static_cast<size_t>(row)] != 0;
      rows.push_back(valid ? std::optional(RowOf(**batch, row)) : std::nullopt);
      if (!valid) ExpectEmpty(RowOf(**batch, row));
    }
    std::vector<uint64_t>& damaged = seen.damaged.emplace_back();
    for (const DamagedSample& one : (*batch)->damaged()) damaged.push_back(one.id.record);
  }
}

// Damage that only an op of pass 2 finds.
PhysicalOp LateCheck(std::set<uint64_t> bad) {
  return MakeRowOp("late", "", DType::kU8, [bad](Run& run, Column*, int64_t row) {
    if (!bad.contains(run.id(row).record)) return;
    run.Fail(row, MakeRecordError(absl::StatusCode::kDataLoss,
                                  {.file = "late", .reason = RecordErrorReason::kImage}, "late"));
  });
}

// Empties the rows of `bad` records; rows behind them move up in groups of `lane_rows` slots.
Rows Expected(const Rows& undamaged, const std::set<uint64_t>& bad, Policy policy,
              size_t lane_rows) {
  Rows rows = undamaged;
  for (auto& row : rows) {
    if (row.has_value() && bad.contains(row->id.record)) row.reset();
  }
  if (policy == Policy::kMask) return rows;
  for (size_t first = 0; first < rows.size(); first += lane_rows) {
    const auto begin = rows.begin() + static_cast<ptrdiff_t>(first);
    std::stable_partition(begin, begin + static_cast<ptrdiff_t>(lane_rows),
                          [](const auto& row) { return row.has_value(); });
  }
  return rows;
}

// S-DAMAGE-3, -4, -8: pass 2 finds it, so that every other row is where it would be.
TEST(DamageCutTest, LateDamageLeavesEveryOtherRow) {
  const std::set<uint64_t> bad = {0, 3, 8, 9, 22, 31, 32, 33, 47, 59};
  const std::vector<NamedPlan> plans = {{"filter", [] { return FilterPlan(16, 8); }},
                                        {"padded", [] { return TokensPlan(Kind::kPadded, 4); }},
                                        {"ragged", [] { return TokensPlan(Kind::kRagged, 4); }},
                                        {"unbatch", [] { return UnbatchPlan(4); }}};
  for (const NamedPlan& named : plans) {
    for (const Policy policy : {Policy::kSkip, Policy::kMask}) {
      const Seen undamaged = Drained(named.make(), MakeFakeData(kRecords), 2);
      PhysicalPlan plan = named.make();
      const size_t lane_rows = plan.batch.size / plan.lanes;
      plan.damage.policy = policy;
      plan.ops.push_back(LateCheck(bad));
      const Seen got = Drained(std::move(plan), MakeFakeData(kRecords), 3);
      ASSERT_EQ(got.batches.size(), undamaged.batches.size());
      for (size_t b = 0; b < got.batches.size(); ++b) {
        EXPECT_EQ(got.batches[b], Expected(undamaged.batches[b], bad, policy, lane_rows))
            << named.name << ", batch " << b;
      }
    }
  }
}

// S-DAMAGE-8, S-CUT-4: what cannot be judged is a row, and only that row.
TEST(DamageCutTest, WhatCannotBeJudgedIsOneDamagedRow) {
  FakeData data = MakeFakeData(kRecords);
  data.bad_crc = {2, 11, 12, 30, 58};
  for (const NamedPlan& named : CutPlans()) {
    const Seen clean = Drained(named.make(), MakeFakeData(kRecords), 2);
    std::map<std::tuple<uint64_t, uint64_t, uint64_t>, Row> good;
    for (const Rows& rows : clean.batches) {
      for (const auto& row : rows) {
        if (row.has_value()) good[{row->id.epoch, row->id.record, row->id.sub_index}] = *row;
      }
    }
    for (const Policy policy : {Policy::kSkip, Policy::kMask}) {
      PhysicalPlan plan = named.make();
      plan.damage.policy = policy;
      const Seen got = Drained(std::move(plan), data, 3);
      std::multiset<uint64_t> damaged;
      size_t rows_seen = 0;
      for (size_t b = 0; b < got.batches.size(); ++b) {
        damaged.insert(got.damaged[b].begin(), got.damaged[b].end());
        for (const auto& row : got.batches[b]) {
          if (!row.has_value()) continue;
          EXPECT_FALSE(data.bad_crc.contains(row->id.record));
          EXPECT_EQ(*row, (good.at({row->id.epoch, row->id.record, row->id.sub_index})));
          ++rows_seen;
        }
      }
      const auto bad_before = static_cast<size_t>(std::ranges::count_if(
          good, [&](const auto& entry) { return data.bad_crc.contains(entry.second.id.record); }));
      EXPECT_EQ(rows_seen, good.size() - bad_before) << named.name;
      const size_t epochs = named.name == "shuffle" ? 2 : 1;
      for (const uint64_t record : data.bad_crc) {
        EXPECT_EQ(damaged.count(record), epochs) << named.name << ", record " << record;
      }
      EXPECT_EQ(damaged.size(), epochs * data.bad_crc.size());
    }
  }
}

// S-DAMAGE-2, -3, S-CUT-11: behind a cut rows move up in their lane, so worlds agree.
TEST(DamageCutTest, WorldsAgree) {
  FakeData data = MakeFakeData(kRecords);
  data.bad_crc = {1, 12, 13, 40};
  for (const NamedPlan& named : CutPlans()) {
    if (named.name == "bucket") continue;  // its ranks' tensors differ in length
    for (const Policy policy : {Policy::kSkip, Policy::kMask}) {
      const auto make = [&] {
        PhysicalPlan plan = named.make();
        plan.damage.policy = policy;
        plan.ops.push_back(LateCheck({5, 6, 33}));
        return plan;
      };
      const Seen whole = Drained(make(), data, 2);
      const Seen low = Drained(make(), data, 1, 0, 2);
      const Seen high = Drained(make(), data, 3, 1, 2);
      ASSERT_EQ(low.batches.size(), whole.batches.size());
      for (size_t b = 0; b < whole.batches.size(); ++b) {
        Rows joined = low.batches[b];
        joined.insert(joined.end(), high.batches[b].begin(), high.batches[b].end());
        EXPECT_EQ(joined, whole.batches[b]) << named.name << ", batch " << b;
      }
    }
  }
}

// S-DAMAGE-2, S-STATE-10.
TEST(DamageCutTest, ResumingAtAnyBatchGivesTheRest) {
  FakeData data = MakeFakeData(kRecords);
  data.bad_crc = {0, 12, 13, 40, 59};
  for (const NamedPlan& named : CutPlans()) {
    for (const Policy policy : {Policy::kSkip, Policy::kMask}) {
      const auto open = [&](std::string token) {
        PhysicalPlan plan = named.make();
        plan.damage.policy = policy;
        plan.ops.push_back(LateCheck({5, 6, 33}));
        OpenOptions options;
        options.resume_token = std::move(token);
        return OpenFake(std::move(plan), data, FakeContext(2), options);
      };
      const Stream whole = Drain(*open(""));
      ASSERT_TRUE(whole.end.ok()) << whole.end;
      for (size_t i = 0; i < whole.tokens.size(); i += 2) {
        const Stream rest = Drain(*open(whole.tokens[i]));
        EXPECT_TRUE(std::ranges::equal(rest.digests, std::span(whole.digests).subspan(i + 1)))
            << named.name << " behind batch " << i;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::pipeline
