#include "pipeline/cut/settler.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/messages.h"
#include "tests/pipeline/cut/settler_fixture.h"
#include "tests/sanitized.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kMaxBatches = 60;
constexpr uint64_t kFarPosition = 4000;  // of an endless lane, in the plain cut

// One filter, fixed batches.
CutCase FilterCut(uint64_t lanes, uint64_t batch, uint64_t records) {
  CutCase cut;
  cut.plan.lanes = lanes;
  cut.plan.cut.emplace();
  cut.plan.cut->num_filters = 1;
  cut.plan.batch.size = batch;
  cut.plan.batch.stage = "batch";
  cut.lane_sizes.assign(lanes, records / lanes);
  return cut;
}

CutCase BucketCut(uint64_t lanes, uint64_t records) {
  CutCase cut = FilterCut(lanes, 4 * lanes, records);
  cut.plan.batch.kind = BatchSpec::Kind::kBucket;
  cut.plan.batch.length_field = "tokens";
  cut.plan.batch.boundaries = {5, 12};
  cut.plan.batch.bucket_sizes = {4 * lanes, 2 * lanes, lanes};
  cut.plan.cut->extents_of = {"image", "tokens"};
  cut.plan.batch_schema.Set({"image", DType::kU8, Shape{Shape::kUnknown}});
  cut.plan.batch_schema.Set({"tokens", DType::kI64, Shape{Shape::kUnknown}});
  return cut;
}

CutCase Endless(CutCase cut) {
  cut.endless = true;
  cut.lane_sizes.assign(cut.plan.lanes, kInfinite);
  return cut;
}

OrderStep Step(OrderStep::Kind kind, uint64_t count) {
  OrderStep step;
  step.kind = kind;
  step.count = count;
  step.stage = "again";
  return step;
}

// A row that was kept, for cases written by hand.
Examined::Row Kept(uint64_t position, uint64_t epoch = 0) {
  Examined::Row row;
  row.origin = {{epoch, position, 0}, position};
  row.passed_filters = 1;
  return row;
}

Examined BlockOf(uint64_t first, uint64_t end, std::vector<Examined::Row> rows) {
  Examined block;
  block.first = first;
  block.end = end;
  block.rows = std::move(rows);
  return block;
}

void ExpectSameBatches(const std::vector<PlainBatch>& got, const std::vector<PlainBatch>& expected,
                       size_t first = 0) {
  ASSERT_EQ(got.size(), expected.size() - first);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].rows, expected[first + i].rows) << "batch " << first + i;
    EXPECT_EQ(got[i].error_rows, expected[first + i].error_rows);
    EXPECT_EQ(got[i].pass, expected[first + i].pass) << "batch " << first + i;
    EXPECT_EQ(got[i].epoch, expected[first + i].epoch) << "batch " << first + i;
    EXPECT_EQ(got[i].ends_epoch, expected[first + i].ends_epoch) << "batch " << first + i;
  }
}

// Worlds of up to all rows of the smallest batch (S-CUT-21), or of all lanes (S-CUT-11).
std::vector<int> Worlds(const CutCase& cut) {
  const uint64_t most =
      RanksKnowBatches(cut.plan, cut.endless) ? SmallestBatch(cut.plan) : cut.plan.lanes;
  std::vector<int> worlds;
  for (const int world : {1, 2, 3, 4, 8, 13}) {
    if (static_cast<uint64_t>(world) <= most) worlds.push_back(world);
  }
  return worlds;
}

// Settles `records` of each lane of an input that grows: each of their rows is in a batch of this
// rank, or is given back.
void ExpectAllGivenBack(const CutCase& cut, int rank, int world, uint64_t records) {
  SCOPED_TRACE(testing::Message() << "rank " << rank << " of " << world);
  auto settler = Settler::Make(cut.plan, {.rank = rank,
                                          .world = world,
                                          .num_lanes = cut.plan.lanes,
                                          .extents_per_row = ExtentsPerRow(cut),
                                          .lane_sizes = cut.lane_sizes,
                                          .grows = true});
  ASSERT_TRUE(settler.ok()) << settler.status();
  std::multiset<uint64_t> given, back;
  for (uint64_t lane = 0; lane < cut.plan.lanes; ++lane) {
    Examined block = ExamineBlock(cut, lane, 0, records);
    for (const Examined::Row& row : block.rows) given.insert(row.origin.id.record);
    (*settler)->Settle(std::move(block));
  }
  (*settler)->EndInput(std::vector<uint64_t>(cut.plan.lanes, records));
  while (const auto batch = (*settler)->Take()) {
    for (const ClosedBatch::Row& row : batch->rows) back.insert(row.origin.id.record);
  }
  EXPECT_TRUE((*settler)->ended());
  for (const uint64_t record : (*settler)->TakeDropped()) back.insert(record);
  EXPECT_EQ(back, given);
}

// S-CUT-10 to S-CUT-16, S-BATCH-10, S-BATCH-11, against the plain cut: S-CUT-12, S-CUT-15,
// S-CUT-16.
TEST(SettlerTest, EveryWorldGivesTheRowsOfThePlainCut) {
  size_t batches = 0;
  for (uint64_t seed = 0; seed < Rounds(400u); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const CutCase cut = RandomCut(seed);
    const std::vector<PlainBatch> expected = PlainCut(cut, 0).Batches(kMaxBatches);
    batches += expected.size();
    for (const int world : Worlds(cut)) {
      SCOPED_TRACE(testing::Message() << "world " << world);
      ExpectSameBatches(RunWorld(cut, world, kMaxBatches, seed).batches, expected);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(batches, Rounds(2000u));  // the random plans are not mostly empty
}

TEST(SettlerTest, EndlessLanesGiveTheRowsOfThePlainCut) {
  for (uint64_t seed = 0; seed < Rounds(100u); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    CutCase cut = Endless(RandomCut(seed));
    cut.plan.batch_order.clear();
    const std::vector<PlainBatch> expected = PlainCut(cut, kFarPosition).Batches(20);
    for (const int world : Worlds(cut)) {
      ExpectSameBatches(RunWorld(cut, world, 20, seed).batches, expected);
    }
    if (HasFailure()) return;
  }
}

// S-STATE-10: stop after every batch, go on at another world.
TEST(SettlerTest, StateAfterEveryBatchGoesOnAtAnotherWorld) {
  for (uint64_t seed = 0; seed < Rounds(120u); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const CutCase cut = RandomCut(seed);
    const std::vector<PlainBatch> expected = PlainCut(cut, 0).Batches(20);
    const std::vector<int> worlds = Worlds(cut);
    const WorldRun run = RunWorld(cut, worlds[seed % worlds.size()], 20, seed);
    for (size_t i = 0; i < run.states.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "after batch " << i);
      const int world = worlds[(seed + i) % worlds.size()];
      const size_t rest = expected.size() - i - 1;
      ExpectSameBatches(RunWorld(cut, world, rest, seed + i, {run.states[i].back()}, i + 1).batches,
                        expected, i + 1);
    }
    if (HasFailure()) return;
  }
}

// S-STATE-10: what was examined ahead is not in it.
TEST(SettlerTest, StateDoesNotDependOnHowBlocksCame) {
  for (uint64_t seed = 0; seed < Rounds(50u); ++seed) {
    const CutCase cut = RandomCut(seed);
    const WorldRun one = RunWorld(cut, 1, 20, 1);
    const WorldRun two = RunWorld(cut, 1, 20, 2);
    EXPECT_EQ(one.states, two.states) << seed;
  }
}

TEST(SettlerTest, EveryRankOfAFiniteInputWritesTheSameState) {
  const CutCase cut = FilterCut(4, 8, 100);
  for (const std::vector<std::string>& states : RunWorld(cut, 4, 100, 1).states) {
    EXPECT_THAT(states, testing::Each(states[0]));
  }
}

// S-STATE-11.
TEST(SettlerTest, StateOfAnEndlessInputGoesOnAtItsOwnWorld) {
  const CutCase cut = Endless(FilterCut(4, 8, 0));
  const std::vector<PlainBatch> expected = PlainCut(cut, kFarPosition).Batches(20);
  const WorldRun run = RunWorld(cut, 2, 20, 1);
  ExpectSameBatches(RunWorld(cut, 2, 12, 5, run.states[7], 8).batches, expected, 8);
}

TEST(SettlerTest, StateOfOneRankOfAnEndlessInputHasNoOtherLanes) {
  const CutCase cut = Endless(FilterCut(4, 8, 0));
  const WorldRun run = RunWorld(cut, 2, 3, 1);
  auto settler = MakeSettler(cut, 0, 1);
  ASSERT_TRUE(settler.ok());
  const absl::Status status = (*settler)->Restore(run.states[2][0]);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_MESSAGE(status);
}

TEST(SettlerTest, StateOfASingleRankOfAnEndlessInputHasAllLanes) {
  const CutCase cut = Endless(FilterCut(4, 8, 0));
  const std::vector<PlainBatch> expected = PlainCut(cut, kFarPosition).Batches(20);
  const WorldRun run = RunWorld(cut, 1, 20, 1);
  ExpectSameBatches(RunWorld(cut, 4, 12, 5, run.states[7], 8).batches, expected, 8);
}

// S-CUT-21, of an input that grows: no record stays behind.
TEST(SettlerTest, RowsOfOtherRanksAndOfSkippedBatchesAreGivenBack) {
  constexpr uint64_t kRecords = 40;
  for (const uint64_t lanes : {1, 2}) {
    for (const bool buckets : {false, true}) {
      CutCase cut = buckets ? BucketCut(lanes, 0) : FilterCut(lanes, 4, 0);
      cut.keep_percent = 100;
      cut.plan.batch_order = {Step(OrderStep::Kind::kSkip, 1)};
      cut.lane_sizes.assign(lanes, kInfinite);
      for (int rank = 0; rank < 4; ++rank) {
        for (const int world : {1, 2, 4}) {
          if (rank < world) ExpectAllGivenBack(cut, rank, world, kRecords);
        }
      }
    }
  }
}

// S-CUT-11: at most so many ranks, and what to do.
TEST(SettlerTest, MoreRanksThanLanesIsRefusedWithAdvice) {
  const auto settler = MakeSettler(Endless(FilterCut(2, 8, 0)), 3, 4);
  EXPECT_TRUE(absl::IsInvalidArgument(settler.status()));
  EXPECT_MESSAGE(settler.status());
}

TEST(SettlerTest, LanesThatDoNotDivideABatchAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(MakeSettler(FilterCut(3, 8, 9), 0, 1).status()));
  CutCase buckets = BucketCut(2, 10);
  buckets.plan.batch.bucket_sizes[1] = 3;
  EXPECT_TRUE(absl::IsInvalidArgument(MakeSettler(buckets, 0, 1).status()));
}

// S-CUT-13: an endless input has no second pass.
TEST(SettlerTest, RepeatBehindATakeOfAnEndlessInputIsRefused) {
  CutCase cut = Endless(FilterCut(1, 2, 0));
  cut.plan.batch_order = {Step(OrderStep::Kind::kTake, 3), Step(OrderStep::Kind::kRepeat, 2)};
  EXPECT_TRUE(absl::IsInvalidArgument(MakeSettler(cut, 0, 1).status()));
  cut.plan.batch_order = {Step(OrderStep::Kind::kRepeat, 2), Step(OrderStep::Kind::kTake, 3)};
  EXPECT_TRUE(MakeSettler(cut, 0, 1).ok());
}

// S-CUT-10: handed out as soon as the next row is there, not the next batch.
TEST(SettlerTest, BatchIsHandedOutWhenTheNextRowIsKnown) {
  const CutCase cut = FilterCut(1, 2, 100);
  auto settler = *MakeSettler(cut, 0, 1);
  settler->Settle(BlockOf(0, 2, {Kept(0), Kept(1)}));
  EXPECT_FALSE(settler->Take().has_value());
  settler->Settle(BlockOf(2, 3, {Kept(2)}));
  const auto batch = settler->Take();
  ASSERT_TRUE(batch.has_value());
  EXPECT_FALSE(batch->ends_epoch);
  EXPECT_FALSE(settler->Take().has_value());
  settler->Settle(BlockOf(3, 5, {Kept(3), Kept(4, 1)}));
  EXPECT_TRUE(settler->Take()->ends_epoch);
}

TEST(SettlerTest, TakeBehindTheFilterEndsThePassWithoutReadingOn) {
  CutCase cut = FilterCut(1, 2, 1000);
  cut.plan.cut->settle.push_back({SettleStep::Kind::kTake, 2, 1, 0, "take"});
  cut.plan.batch_order = {Step(OrderStep::Kind::kRepeat, 2)};
  auto settler = *MakeSettler(cut, 0, 1);
  settler->Settle(BlockOf(0, 4, {Kept(0), Kept(3)}));
  settler->Settle(BlockOf(4, 8, {Kept(5)}));
  EXPECT_EQ(settler->NextPosition(0), 1000u);
  // A block that was under way is ignored.
  settler->Settle(BlockOf(8, 9, {Kept(8)}));
  EXPECT_EQ(settler->NextPosition(0), 1000u);
  EXPECT_TRUE(settler->WantsMore(0));
}

// S-CUT-14.
TEST(SettlerTest, FilterThatDropsAllEndsARepeatWithoutEnd) {
  CutCase cut = FilterCut(2, 4, 40);
  cut.keep_percent = 0;
  cut.plan.batch_order = {Step(OrderStep::Kind::kRepeat, 0)};
  EXPECT_TRUE(RunWorld(cut, 2, 10, 1).batches.empty());
}

TEST(SettlerTest, EmptyLanesEndAtOnce) {
  CutCase cut = FilterCut(2, 4, 0);
  cut.plan.batch_order = {Step(OrderStep::Kind::kRepeat, 0)};
  auto settler = *MakeSettler(cut, 0, 1);
  EXPECT_FALSE(settler->WantsMore(0));
  EXPECT_FALSE(settler->Take().has_value());
  EXPECT_TRUE(settler->ended());
}

// S-CUT-17: a lane that has enough waits for the others.
TEST(SettlerTest, LaneDoesNotRunAhead) {
  CutCase cut = FilterCut(2, 4, 1'000'000);
  cut.keep_percent = 100;
  auto settler = *MakeSettler(cut, 0, 1);
  while (settler->WantsMore(0)) {
    const uint64_t first = settler->NextPosition(0);
    settler->Settle(ExamineBlock(cut, 0, first, first + 10));
  }
  EXPECT_LT(settler->NextPosition(0), 100u);
  EXPECT_TRUE(settler->WantsMore(1));
}

// S-CUT-17: nor does one whose rows are all dropped run through the passes to come.
TEST(SettlerTest, LaneWithoutRowsStopsAPassAhead) {
  CutCase cut = FilterCut(2, 4, 200);
  cut.plan.batch_order = {Step(OrderStep::Kind::kRepeat, 0)};
  auto settler = *MakeSettler(cut, 0, 1);
  while (settler->WantsMore(0)) {
    const uint64_t first = settler->NextPosition(0);
    settler->Settle(BlockOf(first, first + 10, {}));
  }
  EXPECT_EQ(settler->NextPosition(0), 200u);
}

// S-BATCH-12: a flushed bucket has the slots of a full one.
TEST(SettlerTest, BucketBatchesHaveTheSlotsOfTheirBuckets) {
  CutCase cut = BucketCut(2, 60);
  auto settler = *MakeSettler(cut, 0, 1);
  Feeder feeder(cut, *settler, 1);
  size_t batches = 0;
  while (const auto batch = feeder.Next()) {
    ++batches;
    EXPECT_GE(batch->num_slots, static_cast<int64_t>(batch->rows.size()));
    EXPECT_LE(batch->num_slots, 8);
    EXPECT_EQ(batch->pad_to, -1);
    EXPECT_EQ(batch->extents.size(), 2 * batch->rows.size());
  }
  EXPECT_GT(batches, 5u);
}

// S-BATCH-13.
TEST(SettlerTest, LengthBehindTheLastBoundaryIsAnErrorWhenPaddingToBoundaries) {
  CutCase cut = BucketCut(1, 100);
  cut.plan.batch.pad_to_boundary = true;
  auto settler = *MakeSettler(cut, 0, 1);
  Feeder feeder(cut, *settler, 1);
  size_t errors = 0;
  while (const auto batch = feeder.Next()) {
    EXPECT_TRUE(batch->pad_to == 4 || batch->pad_to == 11) << batch->pad_to;
    for (size_t i = 0; i < batch->rows.size(); ++i) {
      const int64_t length = batch->extents[2 * i + 1];
      EXPECT_EQ(batch->rows[i].error >= 0, length >= 12);
      if (batch->rows[i].error < 0) {
        EXPECT_LE(length, batch->pad_to);
      }
    }
    errors += batch->errors.size();
  }
  EXPECT_GT(errors, 0u);
}

TEST(SettlerTest, OpenRowThatIsGoneIsFailedPrecondition) {
  CutCase cut = BucketCut(1, 100);
  const WorldRun run = RunWorld(cut, 1, 4, 1);
  auto settler = *MakeSettler(cut, 0, 1);
  ASSERT_TRUE(settler->Restore(run.states[3][0]).ok());
  ASSERT_FALSE(settler->OpenRows(0).empty());
  EXPECT_TRUE(absl::IsFailedPrecondition(settler->Reopen(0, {})));
}

TEST(SettlerTest, OpenRowThatCannotBeReadAnyMoreIsAnErrorInItsPlace) {
  CutCase cut = BucketCut(1, 100);
  const WorldRun run = RunWorld(cut, 1, 4, 1);
  auto settler = *MakeSettler(cut, 0, 1);
  ASSERT_TRUE(settler->Restore(run.states[3][0]).ok());
  Examined found;
  for (const RowOrigin& origin : settler->OpenRows(0)) {
    Examine(cut, 0, origin.position, &found);
    found.rows.back().error = 0;
  }
  found.errors.push_back(absl::DataLossError("gone"));
  ASSERT_TRUE(settler->Reopen(0, found).ok());
  Feeder feeder(cut, *settler, 2);
  size_t errors = 0;
  while (const auto batch = feeder.Next()) errors += batch->errors.size();
  EXPECT_EQ(errors, found.rows.size());
}

}  // namespace
}  // namespace millrace::pipeline
