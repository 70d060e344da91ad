#include "pipeline/executor/lookahead.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "base/mutex.h"
#include "tests/pipeline/cut/cut_plans.h"
#include "tests/pipeline/executor/executor_fixture.h"

namespace millrace::pipeline {
namespace {

// What a source was told; thread-safe.
class Told {
 public:
  void Expect(uint64_t group, size_t records) {
    MutexLock lock(mu_);
    EXPECT_TRUE(groups_.insert(group).second) << group;
    most_groups_ = std::max(most_groups_, groups_.size());
    records_ += records;
  }
  void Forget(uint64_t group) {
    MutexLock lock(mu_);
    EXPECT_EQ(groups_.erase(group), 1u) << group;
  }
  size_t groups() const {
    MutexLock lock(mu_);
    return groups_.size();
  }
  size_t most_groups() const {
    MutexLock lock(mu_);
    return most_groups_;
  }
  size_t records() const {
    MutexLock lock(mu_);
    return records_;
  }

 private:
  mutable Mutex mu_;
  std::set<uint64_t> groups_ MILLRACE_GUARDED_BY(mu_);  // that are expected
  size_t most_groups_ MILLRACE_GUARDED_BY(mu_) = 0;
  size_t records_ MILLRACE_GUARDED_BY(mu_) = 0;  // of all groups
};

// A source that fetches records by themselves, and keeps 64 KiB of them.
class ExpectingSource final : public FakeSource {
 public:
  ExpectingSource(const FakeData& data, Told& told) : FakeSource(data), told_(told) {}
  std::optional<readers::FetchFacts> fetches() const override {
    return readers::FetchFacts{.single = true, .block_bytes = 4 << 10, .kept_bytes = 64 << 10};
  }
  void Expect(uint64_t group, std::span<const readers::RecordRef> refs) const override {
    told_.Expect(group, refs.size());
  }
  void Forget(uint64_t group) const override { told_.Forget(group); }

 private:
  Told& told_;
};

Stream DrainTold(PhysicalPlan plan, const FakeData& data, Told& told) {
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  sources.push_back(std::make_unique<ExpectingSource>(data, told));
  OpenedSources opened = JoinSources(plan, std::move(sources));
  auto parts = MakeExecutorParts(std::move(plan), std::move(opened), FakeContext(2), {});
  EXPECT_TRUE(parts.ok()) << parts.status();
  if (!parts.ok()) return Stream();
  parts->rows_per_run = 16;  // else pass 1 looks as far ahead as fast rows allow
  auto pipeline = OpenParts(*std::move(parts), {});
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  return pipeline.ok() ? Drain(**pipeline) : Stream();
}

// Eight records of each epoch, behind a filter.
PhysicalPlan TakePlan(uint64_t epochs) {
  PhysicalPlan plan = FilterPlan(8, 1, {Step(OrderStep::Kind::kGlobalShuffle)});
  plan.batch_order = {Step(OrderStep::Kind::kRepeat, epochs)};
  plan.cut->settle.push_back(
      {.kind = SettleStep::Kind::kTake, .count = 8, .after_filters = 1, .stage = "take"});
  return plan;
}

// S-FETCH-3: what pass 1 passes over is not fetched, and does not stay expected.
TEST(LookaheadTest, ThePositionsThatATakePassesOverAreForgotten) {
  constexpr size_t kRecords = 2000;
  constexpr uint64_t kEpochs = 30;
  const FakeData data = MakeFakeData(kRecords);
  Told told;
  const Stream stream = DrainTold(TakePlan(kEpochs), data, told);
  EXPECT_TRUE(stream.end.ok()) << stream.end;
  EXPECT_EQ(stream.digests.size(), kEpochs);
  EXPECT_EQ(stream.digests, Drain(*OpenFake(TakePlan(kEpochs), data, FakeContext(2))).digests);
  EXPECT_LT(told.most_groups(), kRecords / 15) << "as many as an epoch has";
  EXPECT_LT(told.records(), kEpochs * kRecords / 4);
  EXPECT_EQ(told.groups(), 0u);
}

// All of an epoch is read: nothing is passed over.
TEST(LookaheadTest, EveryPositionOfAFilterIsExpectedOnceAnEpoch) {
  const FakeData data = MakeFakeData(500);
  Told told;
  PhysicalPlan plan = TakePlan(3);
  plan.cut->settle.clear();
  EXPECT_TRUE(DrainTold(std::move(plan), data, told).end.ok());
  EXPECT_EQ(told.records(), 3 * 500u);
  EXPECT_EQ(told.groups(), 0u);
}

}  // namespace
}  // namespace millrace::pipeline
