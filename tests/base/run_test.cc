#include "base/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace millrace {
namespace {

bool IsAligned(const void* piece) { return reinterpret_cast<uintptr_t>(piece) % 64 == 0; }

TEST(RunArena, PiecesAreAlignedAndDoNotOverlap) {
  RunArena arena(1024);
  std::vector<std::pair<std::byte*, size_t>> pieces;
  for (size_t size : {1, 63, 64, 65, 200, 1000, 1, 0, 500, 1024}) {
    std::byte* piece = arena.Allocate(size);
    ASSERT_TRUE(IsAligned(piece)) << size;
    std::memset(piece, static_cast<int>(pieces.size()), size);
    pieces.emplace_back(piece, size);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (size_t b = 0; b < pieces[i].second; ++b) {
      ASSERT_EQ(static_cast<size_t>(pieces[i].first[b]), i);
    }
  }
}

TEST(RunArena, EmptyPiecesHaveAddressesOfTheirOwn) {
  RunArena arena;
  std::byte* first = arena.Allocate(0);
  EXPECT_NE(first, nullptr);
  EXPECT_NE(first, arena.Allocate(0));
}

TEST(RunArena, ResetReusesTheMemory) {
  RunArena arena(4096);
  std::set<std::byte*> first, second;
  for (int i = 0; i < 100; ++i) first.insert(arena.Allocate(300));
  const size_t capacity = arena.capacity_bytes();
  for (int round = 0; round < 10; ++round) {
    arena.Reset();
    second.clear();
    for (int i = 0; i < 100; ++i) second.insert(arena.Allocate(300));
  }
  EXPECT_EQ(first, second);
  EXPECT_EQ(arena.capacity_bytes(), capacity);
}

TEST(RunArena, ScratchIsForgottenAndWhatWasThereIsNot) {
  RunArena arena(256);
  std::byte* const kept = arena.Allocate(64);
  std::byte* first = nullptr;
  {
    const ArenaScratch scratch(arena);
    first = arena.Allocate(64);
    arena.Allocate(1000);  // of other chunks
    arena.Allocate(200);
  }
  const size_t bytes = arena.capacity_bytes();
  EXPECT_EQ(arena.Allocate(64), first);
  EXPECT_NE(first, kept);
  for (int i = 0; i < 10; ++i) {
    const ArenaScratch scratch(arena);
    arena.Allocate(1000);
  }
  EXPECT_EQ(arena.capacity_bytes(), bytes);
}

TEST(RunArena, PiecesLargerThanAChunkGetTheirOwn) {
  RunArena arena(1024);
  std::byte* small = arena.Allocate(10);
  std::byte* large = arena.Allocate(1 << 20);
  std::byte* after = arena.Allocate(10);
  EXPECT_TRUE(IsAligned(large));
  std::memset(small, 1, 10);
  std::memset(after, 3, 10);
  std::memset(large, 2, 1 << 20);
  EXPECT_EQ(static_cast<int>(small[9]), 1);
  EXPECT_EQ(static_cast<int>(after[0]), 3);
  const size_t capacity = arena.capacity_bytes();
  EXPECT_GE(capacity, size_t{1} << 20);
  arena.Reset();
  arena.Allocate(10);
  EXPECT_EQ(arena.Allocate(1 << 20), large);
  EXPECT_EQ(arena.capacity_bytes(), capacity);
}

class RunTest : public testing::Test {
 protected:
  RunArena arena_;
  millrace::Run run_{arena_, /*seed=*/17, /*first_position=*/1000, {{0, 5}, {0, 9}, {1, 2}}};
};

TEST_F(RunTest, RowsHaveConsecutivePositionsAndTheirOwnIds) {
  EXPECT_EQ(run_.num_rows(), 3);
  EXPECT_EQ(run_.position(2), 1002u);
  EXPECT_EQ(run_.id(1), (SampleId{0, 9}));
}

// S-RANDOM-1.
TEST_F(RunTest, RandomWordsAreKeyedBySeedOpEpochAndRecord) {
  RandomStream expected({.seed = 17, .op = 4, .epoch = 1, .record = 2});
  EXPECT_EQ(run_.Random(2, 4).NextU64(), expected.NextU64());
  EXPECT_NE(run_.Random(0, 4).NextU64(), run_.Random(1, 4).NextU64());
}

// The same sample in another run, at another row, draws the same words.
// S-RANDOM-1.
TEST_F(RunTest, RandomWordsDoNotDependOnTheGrouping) {
  millrace::Run other(arena_, 17, 0, {{1, 2}});
  EXPECT_EQ(other.Random(0, 4).NextU64(), run_.Random(2, 4).NextU64());
}

TEST_F(RunTest, ColumnsAreFoundReplacedAndTaken) {
  EXPECT_EQ(run_.Find("x"), nullptr);
  EXPECT_EQ(run_.Add("x", DType::kF32).num_rows(), 3);
  EXPECT_EQ(run_.Get("x").dtype(), DType::kF32);
  run_.Add("x", DType::kI64);
  EXPECT_EQ(run_.Get("x").dtype(), DType::kI64);
  Column taken = run_.Take("x");
  EXPECT_EQ(taken.name(), "x");
  EXPECT_EQ(run_.Find("x"), nullptr);
}

TEST_F(RunTest, ARenewedColumnIsEmptyInItsPlaceAndTheOldOneStays) {
  const int64_t values[] = {1, 2, 3};
  std::vector<float> slab(3);
  const FieldSlots slots[] = {{"x", DType::kF32, {}, reinterpret_cast<std::byte*>(slab.data())}};
  run_.Add("a", DType::kU8);
  Column& x = run_.Add("x", DType::kI64);
  for (int64_t row = 0; row < 3; ++row) x.Set(row, &values[row], {});
  run_.Add("b", DType::kU8);
  run_.Bind(slots);
  Column* renewed = nullptr;
  const Column old = run_.Renew("x", DType::kF32, &renewed);
  EXPECT_EQ(old.at(2).as<int64_t>()[0], 3);
  EXPECT_EQ(renewed, run_.Find("x"));
  EXPECT_EQ(&run_.columns()[1], renewed);
  EXPECT_EQ(renewed->dtype(), DType::kF32);
  EXPECT_EQ(renewed->at(2).data, nullptr);
  EXPECT_EQ(run_.Allocate(*renewed, 1, {}), &slab[1]);
}

TEST_F(RunTest, BytesColumnsBorrow) {
  const std::string value = "hello";
  Column& column = run_.Add("record", DType::kBytes);
  column.Set(1, value.data(), Shape{5});
  EXPECT_EQ(run_.Get("record").bytes(1), "hello");
  EXPECT_EQ(run_.Get("record").bytes(1).data(), value.data());
}

TEST_F(RunTest, UnboundValuesLieInTheArena) {
  Column& column = run_.Add("image", DType::kF32);
  auto* value = static_cast<float*>(run_.Allocate(column, 1, Shape{2, 3}));
  value[5] = 2.5f;
  const ConstTensorView view = run_.Get("image").at(1);
  EXPECT_EQ(view.shape, (Shape{2, 3}));
  EXPECT_EQ(view.as<float>()[5], 2.5f);
  EXPECT_TRUE(IsAligned(value));
}

TEST_F(RunTest, BoundValuesLieInTheirSlots) {
  std::vector<float> slab(3 * 4, -1);
  const std::vector<FieldSlots> slots = {
      {"image", DType::kF32, Shape{4}, reinterpret_cast<std::byte*>(slab.data())}};
  run_.Bind(slots);
  Column& column = run_.Add("image", DType::kF32);
  for (int64_t row = 0; row < 3; ++row) {
    auto* value = static_cast<float*>(run_.Allocate(column, row, Shape{4}));
    EXPECT_EQ(value, slab.data() + row * 4);
    value[0] = static_cast<float>(row);
  }
  EXPECT_EQ(slab, (std::vector<float>{0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1}));
}

TEST_F(RunTest, RoomForAllRowsIsTheSlotsWhereTheyFit) {
  std::vector<float> slab(3 * 4, -1);
  const std::vector<FieldSlots> slots = {
      {"image", DType::kF32, Shape{4}, reinterpret_cast<std::byte*>(slab.data())}};
  run_.Bind(slots);
  Column& column = run_.Add("image", DType::kF32);
  EXPECT_EQ(run_.AllocateAll(column, Shape{4}), slots[0].first_row);
  std::byte* const apart = run_.AllocateAll(column, Shape{5});
  EXPECT_NE(apart, slots[0].first_row);
  std::fill_n(reinterpret_cast<float*>(apart), 3 * 5, 1.0f);
  EXPECT_THAT(slab, testing::Each(-1));
  EXPECT_EQ(run_.columns()[0].at(0).data, nullptr);  // pointed nowhere
}

TEST_F(RunTest, ValuesThatDoNotFitTheirSlotGoToTheArena) {
  std::vector<float> slab(3 * 4, -1);
  const std::vector<FieldSlots> slots = {
      {"image", DType::kF32, Shape{4}, reinterpret_cast<std::byte*>(slab.data())}};
  run_.Bind(slots);
  Column& floats = run_.Add("image", DType::kF32);
  EXPECT_NE(run_.Allocate(floats, 0, Shape{5}), slab.data());
  EXPECT_NE(run_.Allocate(floats, 0, Shape{2, 2}), slab.data());
  Column& integers = run_.Add("image", DType::kI32);
  EXPECT_NE(run_.Allocate(integers, 0, Shape{4}), slab.data());
  Column& other = run_.Add("other", DType::kF32);
  EXPECT_NE(run_.Allocate(other, 0, Shape{4}), slab.data());
}

// Every way to fill a column, against a plain list of addresses and shapes.
TEST_F(RunTest, RowsAreWhereTheyWereSetHoweverTheyLie) {
  const std::string bytes(4096, 'x');
  struct Row {
    int64_t row, offset, size;
  };
  const std::vector<std::vector<Row>> ways = {
      {{0, 0, 8}, {1, 16, 8}, {2, 32, 8}},             // at equal distances
      {{0, 32, 8}, {1, 16, 8}, {2, 0, 8}},             // backwards
      {{0, 0, 8}, {1, 0, 8}, {2, 0, 8}},               // all the same
      {{0, 0, 8}, {1, 16, 8}, {2, 40, 8}},             // the last breaks the pattern
      {{0, 0, 8}, {1, 16, 9}, {2, 32, 8}},             // another shape
      {{0, 0, 8}, {2, 32, 8}},                         // one is missing
      {{1, 0, 8}},                                     // the first and the last are
      {{2, 0, 8}, {1, 16, 8}, {0, 32, 8}},             // in no order
      {{0, 0, 8}, {1, 16, 8}, {0, 64, 4}, {2, 0, 1}},  // one is set again
      {{0, 0, 8}, {1, 16, 8}, {2, 40, 8}, {1, 80, 8}}  // after the pattern broke
  };
  for (size_t way = 0; way < ways.size(); ++way) {
    Column& column = run_.Add("record", DType::kBytes);
    std::vector<std::string_view> want(3);
    for (const Row& row : ways[way]) {
      column.Set(row.row, bytes.data() + row.offset, Shape{row.size});
      want[static_cast<size_t>(row.row)] = std::string_view(bytes).substr(
          static_cast<size_t>(row.offset), static_cast<size_t>(row.size));
    }
    for (int64_t row = 0; row < 3; ++row) {
      const std::string_view value = want[static_cast<size_t>(row)];
      EXPECT_EQ(column.at(row).data, value.data()) << "way " << way << ", row " << row;
      if (value.data() == nullptr) continue;
      EXPECT_EQ(column.bytes(row), value) << "way " << way << ", row " << row;
    }
    EXPECT_EQ(column.is_dense(), way < 3) << "way " << way;
  }
}

TEST_F(RunTest, ARowWithoutBytesKeepsItsShape) {
  const std::string bytes(64, 'x');
  for (const int64_t empty : {0, 1, 2}) {
    Column& column = run_.Add("ints", DType::kI64);
    for (int64_t row = 0; row < 3; ++row) {
      column.Set(row, row == empty ? nullptr : bytes.data() + 24 * row,
                 Shape{row == empty ? 0 : 1});
    }
    EXPECT_EQ(column.at(empty).shape, Shape{0});
    EXPECT_EQ(column.at((empty + 1) % 3).shape, Shape{1});
    EXPECT_FALSE(column.is_dense());
  }
}

TEST_F(RunTest, BorrowedIdsAndMovedRunsKeepTheirIds) {
  const std::vector<SampleId> ids = {{0, 4}, {2, 1}};
  millrace::Run borrowed(arena_, 17, 0, ids.data(), 2);
  EXPECT_EQ(borrowed.num_rows(), 2);
  EXPECT_EQ(&borrowed.id(1), &ids[1]);
  const millrace::Run moved = std::move(run_);
  EXPECT_EQ(moved.id(2), (SampleId{1, 2}));
}

TEST_F(RunTest, TheFirstErrorOfARowWins) {
  EXPECT_TRUE(run_.ok(1));
  run_.Fail(1, absl::DataLossError("first"));
  run_.Fail(1, absl::InternalError("second"));
  EXPECT_FALSE(run_.ok(1));
  EXPECT_EQ(run_.status(1), absl::DataLossError("first"));
  EXPECT_TRUE(run_.ok(0));
  EXPECT_TRUE(run_.status(2).ok());
}

TEST(Run, SelectedRowsShareValuesAndErrorsUnderNewIds) {
  RunArena arena;
  millrace::Run run(arena, 9, 100, {{0, 5, 0}, {0, 6, 0}, {0, 7, 0}});
  Column& column = run.Add("x", DType::kI32);
  for (int64_t row = 0; row < 3; ++row) {
    *static_cast<int32_t*>(run.Allocate(column, row, {})) = static_cast<int32_t>(row);
  }
  run.Fail(1, absl::DataLossError("bad"));
  const std::vector<int64_t> rows = {2, 2, 1};
  const millrace::Run selected = run.Select(rows, {{0, 7, 0}, {0, 7, 1}, {0, 6, 0}});
  ASSERT_EQ(selected.num_rows(), 3);
  EXPECT_EQ(selected.id(1), (SampleId{0, 7, 1}));
  ASSERT_EQ(selected.columns().size(), 1u);
  EXPECT_EQ(selected.columns()[0].name(), "x");
  EXPECT_EQ(selected.Get("x").at(0).data, run.Get("x").at(2).data);
  EXPECT_EQ(selected.Get("x").at(1).data, run.Get("x").at(2).data);
  EXPECT_TRUE(selected.ok(0));
  EXPECT_EQ(selected.status(2), run.status(1));
  EXPECT_EQ(selected.Random(0, 3).NextU32(), run.Random(2, 3).NextU32());
}

}  // namespace
}  // namespace millrace
