#include <gmock/gmock.h>

#include <random>

#include "tests/messages.h"
#include "tests/pipeline/batch/batch_fixture.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using Kind = BatchSpec::Kind;

constexpr int64_t kAny = Shape::kUnknown;

// S-BATCH-20.
TEST(BatchLayoutTest, PaddedExtentsAreTheLargestOfTheRows) {
  const PhysicalPlan plan = BatchPlan(Kind::kPadded, {{"a", DType::kI32, {kAny, kAny}}});
  const Batch batch(MakeBatch(plan, 2, {{0, {Counting({1, 3})}}, {1, {Counting({2, 2})}}}));
  EXPECT_EQ(batch.tensor(0).shape, (Shape{2, 2, 3}));
  EXPECT_EQ(batch.row_shape(0, 0), (Shape{1, 3}));
  EXPECT_EQ(batch.row_shape(0, 1), (Shape{2, 2}));
  EXPECT_THAT(Int32s(batch.tensor(0)), ElementsAre(1, 2, 3, 0, 0, 0, 1, 2, 0, 3, 4, 0));
}

// S-BATCH-20, S-BATCH-3.
TEST(BatchLayoutTest, PaddingIsTheFieldsValueAndMaskedRowsAreZero) {
  PhysicalPlan plan = BatchPlan(Kind::kPadded, {{"a", DType::kI32, {kAny}}});
  plan.batch.padding.push_back({"a", -7, 0});
  const Batch batch(MakeBatch(plan, 3, {{0, {Counting({1})}}, {2, {Counting({2})}}}));
  EXPECT_THAT(Int32s(batch.tensor(0)), ElementsAre(1, -7, 0, 0, 1, 2));
  EXPECT_THAT(batch.valid(), ElementsAre(1, 0, 1));
  EXPECT_EQ(batch.ids()[1], SampleId());
}

TEST(BatchLayoutTest, PaddedRowsOfAnyRankLieAsIndexedOneByOne) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const int rank = 1 + static_cast<int>(random() % 4);
    PhysicalPlan plan =
        BatchPlan(Kind::kPadded, {{"a", DType::kI32, Shape(std::vector<int64_t>(rank, kAny))}});
    plan.batch.padding.push_back({"a", 9, 0});
    std::vector<HandRow> rows;
    for (int64_t slot = 0; slot < 3; ++slot) {
      std::vector<int64_t> extents;
      for (int i = 0; i < rank; ++i) extents.push_back(static_cast<int64_t>(random() % 4));
      rows.push_back({slot, {Counting(Shape(extents), 100)}});
    }
    const Batch batch(MakeBatch(plan, 3, rows));
    const ConstTensorView tensor = batch.tensor(0);
    const std::vector<int32_t> got = Int32s(tensor);
    for (size_t at = 0; at < got.size(); ++at) {
      // Where in its row is this element?
      size_t rest = at;
      int64_t index = 0, stride = 1;
      bool inside = true;
      const int64_t row_elements = tensor.shape.num_elements() / 3;
      const HandRow& row = rows[at / static_cast<size_t>(row_elements)];
      rest %= static_cast<size_t>(row_elements);
      for (int i = rank - 1; i >= 0; --i) {
        const auto extent = static_cast<size_t>(tensor.shape[i + 1]);
        const auto coordinate = static_cast<int64_t>(rest % extent);
        rest /= extent;
        inside = inside && coordinate < row.values[0].shape[i];
        index += coordinate * stride;
        stride *= row.values[0].shape[i];
      }
      ASSERT_EQ(got[at], inside ? row.values[0].elements[static_cast<size_t>(index)] : 9)
          << "round " << round << ", element " << at;
    }
  }
}

// S-BATCH-21.
TEST(BatchLayoutTest, RaggedRowsLieOneAfterTheOtherWithTheirSplits) {
  const PhysicalPlan plan = BatchPlan(Kind::kRagged, {{"a", DType::kI32, {kAny, 2}}});
  const Batch batch(MakeBatch(plan, 4, {{0, {Counting({2, 2})}}, {2, {Counting({1, 2}, 50)}}}));
  EXPECT_THAT(batch.names(), ElementsAre("a", "a/row_splits"));
  EXPECT_EQ(batch.Find("a").shape, (Shape{3, 2}));
  EXPECT_THAT(Int32s(batch.Find("a")), ElementsAre(1, 2, 3, 4, 50, 51));
  EXPECT_EQ(batch.Find("a/row_splits").dtype, DType::kI64);
  EXPECT_THAT(batch.Find("a/row_splits").as<int64_t>(), ElementsAre(0, 2, 2, 3, 3));
  EXPECT_EQ(batch.row_shape(0, 2), (Shape{1, 2}));
}

TEST(BatchLayoutTest, RaggedBatchWithoutRowsIsEmpty) {
  const PhysicalPlan plan = BatchPlan(Kind::kRagged, {{"a", DType::kI32, {kAny}}});
  const Batch batch(MakeBatch(plan, 2, {}));
  EXPECT_EQ(batch.Find("a").shape, (Shape{0}));
  EXPECT_THAT(batch.Find("a/row_splits").as<int64_t>(), ElementsAre(0, 0, 0));
}

// S-BATCH-20: bytes are uint8.
TEST(BatchLayoutTest, BytesBecomeUint8) {
  const PhysicalPlan plan = BatchPlan(Kind::kPadded, {{"s", DType::kBytes, {kAny}}});
  ClosedBatch closed;
  closed.num_slots = 1;
  closed.rows.emplace_back();
  closed.extents = {5};
  const auto layout = MakeClosedLayout(plan, closed);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->fields[0].dtype, DType::kU8);
  EXPECT_EQ(layout->shapes[0], (Shape{1, 5}));
}

// S-BATCH-13.
TEST(BatchLayoutTest, BoundaryIsTheFirstExtent) {
  const PhysicalPlan plan = BatchPlan(Kind::kBucket, {{"a", DType::kI32, {kAny, kAny}}});
  ClosedBatch closed = Closed(plan, 1, {{0, {Counting({2, 3})}}});
  closed.pad_to = 7;
  const auto layout = MakeClosedLayout(plan, closed);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->shapes[0], (Shape{1, 7, 3}));
}

TEST(BatchLayoutTest, FieldsOfOneShapeStayDense) {
  const PhysicalPlan plan =
      BatchPlan(Kind::kPadded, {{"label", DType::kI64, {}}, {"a", DType::kI32, {kAny}}});
  const auto layout = MakeClosedLayout(plan, Closed(plan, 2, {{0, {{}, Counting({2})}}}));
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->store(0), RowStore::kDense);
  EXPECT_EQ(layout->store(1), RowStore::kPadded);
  EXPECT_EQ(layout->shapes[0], (Shape{2}));
}

TEST(BatchLayoutTest, BadRowsTakeNoRoom) {
  const PhysicalPlan plan = BatchPlan(Kind::kPadded, {{"a", DType::kI32, {kAny}}});
  ClosedBatch closed = Closed(plan, 2, {{0, {Counting({2})}}, {1, {Counting({900})}}});
  closed.rows[1].error = 0;
  const auto layout = MakeClosedLayout(plan, closed);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->shapes[0], (Shape{2, 2}));
}

TEST(BatchLayoutTest, SlabOver2To46BytesIsRefused) {
  for (const Kind kind : {Kind::kPadded, Kind::kRagged}) {
    const PhysicalPlan plan = BatchPlan(kind, {{"a", DType::kI32, {kAny}}});
    ClosedBatch closed = Closed(plan, 2, {{0, {{}}}, {1, {{}}}});
    for (const int64_t extent : {int64_t{1} << 45, int64_t{1} << 62}) {
      closed.extents = {extent, extent};
      EXPECT_TRUE(absl::IsInvalidArgument(MakeClosedLayout(plan, closed).status())) << extent;
    }
  }
}

TEST(BatchLayoutTest, ExtentsThatTheFieldDoesNotAdmitAreRefused) {
  for (const Kind kind : {Kind::kPadded, Kind::kRagged}) {
    const PhysicalPlan plan = BatchPlan(kind, {{"a", DType::kI32, {kAny, 4}}});
    ClosedBatch closed = Closed(plan, 1, {{0, {{}}}});
    closed.extents = {3, 2};
    EXPECT_FALSE(MakeClosedLayout(plan, closed).ok());
    closed.extents = {-3, 4};
    EXPECT_FALSE(MakeClosedLayout(plan, closed).ok());
    closed.extents = {3, 4};
    EXPECT_TRUE(MakeClosedLayout(plan, closed).ok());
  }
}

TEST(BatchLayoutTest, PaddingOfEveryElementType) {
  const std::pair<DType, std::string> expected[] = {
      {DType::kU8, {2}},
      {DType::kI32, {2, 0, 0, 0}},
      {DType::kI64, {2, 0, 0, 0, 0, 0, 0, 0}},
      {DType::kF16, {0, '\x3E'}},
      {DType::kBF16, {'\xC0', '\x3F'}},
      {DType::kF32, {0, 0, '\xC0', '\x3F'}},
      {DType::kF64, {0, 0, 0, 0, 0, 0, '\xF8', '\x3F'}},
  };
  for (const auto& [dtype, bytes] : expected) {
    PhysicalPlan plan = BatchPlan(Kind::kPadded, {{"a", dtype, {kAny}}});
    plan.batch.padding.push_back({"a", 2, 1.5});
    const auto layout = MakeClosedLayout(plan, Closed(plan, 1, {{0, {Counting({1})}}}));
    ASSERT_TRUE(layout.ok());
    const std::vector<std::byte>& fill = layout->fill[0];
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(fill.data()), fill.size()), bytes)
        << Name(dtype);
  }
}

TEST(RowStoreTest, AnotherShapeThanPass1ToldIsInternalAndAnotherTypeInvalid) {
  for (const Kind kind : {Kind::kPadded, Kind::kRagged}) {
    const PhysicalPlan plan = BatchPlan(kind, {{"a", DType::kI32, {kAny}}});
    const auto data = MakeBatch(plan, 1, {{0, {Counting({3})}}});
    for (const Value& other : {Counting({2}), Counting({4}), Counting({3, 1})}) {
      const absl::Status status = StoreRow(*data, 0, 0, View(other, DType::kI32));
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      EXPECT_MESSAGE(status);
    }
    EXPECT_EQ(StoreRow(*data, 0, 0, View(Counting({3}), DType::kF32)).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

// Counts what it has given.
class CountingAllocator final : public HostAllocator {
 public:
  absl::StatusOr<std::byte*> Allocate(size_t bytes) override {
    ++allocations;
    live_bytes += bytes;
    return pageable_->Allocate(bytes);
  }
  void Free(std::byte* memory, size_t bytes) override {
    live_bytes -= bytes;
    pageable_->Free(memory, bytes);
  }
  std::string_view name() const override { return "counting"; }

  int allocations = 0;
  size_t live_bytes = 0;

 private:
  const std::shared_ptr<HostAllocator> pageable_ = MakePageableAllocator();
};

constexpr int64_t kRoomy = int64_t{1} << 30;

std::shared_ptr<MemoryBudget> MakeBudget(int64_t bytes) {
  return std::make_shared<MemoryBudget>(bytes, std::make_shared<Metrics>());
}

TEST(SlabPoolTest, SlabOfTheSameSizeIsUsedAgain) {
  auto allocator = std::make_shared<CountingAllocator>();
  SlabPool pool(allocator, MakeBudget(kRoomy), 2);
  std::byte* const small = *pool.Take(4096);
  std::byte* const large = *pool.Take(8192);
  pool.GiveBack(small, 4096);
  pool.GiveBack(large, 8192);
  EXPECT_EQ(*pool.Take(4096), small);
  EXPECT_EQ(*pool.Take(8192), large);
  EXPECT_EQ(allocator->allocations, 2);
  pool.GiveBack(small, 4096);
  pool.GiveBack(large, 8192);
}

TEST(SlabPoolTest, IdleSlabsAreFewWhateverTheirSizes) {
  auto allocator = std::make_shared<CountingAllocator>();
  SlabPool pool(allocator, MakeBudget(kRoomy), 2);
  for (size_t bytes = 64; bytes <= 64 * 100; bytes += 64) pool.GiveBack(*pool.Take(bytes), bytes);
  EXPECT_EQ(allocator->live_bytes, 64u * (99 + 100));
}

TEST(SlabPoolTest, IdleSlabsTakeOnlyWhatTheBudgetLeaves) {
  auto allocator = std::make_shared<CountingAllocator>();
  const auto budget = MakeBudget(10'000);
  SlabPool pool(allocator, budget, 8);
  std::vector<std::byte*> slabs;
  for (size_t i = 0; i < 4; ++i) slabs.push_back(*pool.Take(3000 + i));
  for (size_t i = 0; i < 4; ++i) pool.GiveBack(slabs[i], 3000 + i);
  EXPECT_EQ(allocator->live_bytes, 3001u + 3002 + 3003);  // the oldest went
  budget->Reserve(5000);
  std::byte* const other = *pool.Take(5000);
  EXPECT_EQ(allocator->live_bytes, 3003u + 5000);
  budget->Release(5000);
  pool.GiveBack(other, 5000);
  EXPECT_EQ(allocator->live_bytes, 3003u + 5000);
}

TEST(SlabPoolTest, NothingIsLeftAfterClose) {
  auto allocator = std::make_shared<CountingAllocator>();
  SlabPool pool(allocator, MakeBudget(kRoomy), 4);
  std::byte* const late = *pool.Take(4096);
  pool.GiveBack(*pool.Take(8192), 8192);
  pool.Close();
  EXPECT_EQ(allocator->live_bytes, 4096u);
  pool.GiveBack(late, 4096);
  EXPECT_EQ(allocator->live_bytes, 0u);
}

TEST(BatchLayoutTest, SmallBatchesAreMadeFurtherAhead) {
  const auto prefetch = [](int64_t bytes, uint64_t rows) {
    const auto layout = MakeBatchLayout(Schema({{"a", DType::kU8, {bytes}}}), rows);
    EXPECT_TRUE(layout.ok()) << layout.status();
    return DefaultPrefetch(*layout);
  };
  EXPECT_EQ(prefetch(1, 1), 32);
  EXPECT_EQ(prefetch(100, 1024), 8);  // 100 bytes, an id of 24 and a valid byte a row: 125 KiB
  EXPECT_EQ(prefetch(224 * 224 * 3, 64), 2);
}

}  // namespace
}  // namespace millrace::pipeline
