#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "pipeline/order/order.h"
#include "tests/pipeline/executor/fake_ops.h"
#include "tests/pipeline/order/order_model.h"

// shuffle(buffer) and the block-wise global_shuffle alone, over more sizes than the trees draw.

namespace millrace::pipeline {
namespace {

using model::Kind;
using model::Rows;

constexpr uint64_t kSeed = 11;

OrderPlan Plan(std::vector<OrderStep> steps) {
  OrderPlan plan;
  plan.steps = std::move(steps);
  return plan;
}

Order MakeOrder(const OrderPlan& plan, uint64_t num_records, uint64_t total_bytes = 0) {
  const OrderSource source{
      .num_records = num_records, .total_bytes = total_bytes, .shard_records = {}};
  return *Order::Make(plan, {&source, 1}, kSeed);
}

std::vector<uint64_t> Records(const Order& order, uint64_t first, uint64_t length, OrderMemo* memo,
                              uint64_t epoch = 0) {
  Rows rows(length);
  for (uint64_t i = 0; i < length; ++i) rows[i] = {.epoch = epoch, .record = first + i};
  order.Map(rows, memo);
  std::vector<uint64_t> records;
  for (const SampleId& id : rows) records.push_back(id.record);
  return records;
}

void ExpectPermutation(std::vector<uint64_t> records) {
  std::ranges::sort(records);
  for (uint64_t i = 0; i < records.size(); ++i) ASSERT_EQ(records[i], i);
}

constexpr uint64_t kSizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 64, 100, 333};
constexpr uint64_t kBuffers[] = {1, 2, 3, 4, 5, 8, 16, 33, 100, 1000};

// S-ORDER-8.
TEST(ShuffleTest, EqualsAnArrayOfSlotsForEverySizeAndBuffer) {
  for (const uint64_t size : kSizes) {
    for (const uint64_t buffer : kBuffers) {
      const OrderPlan plan = Plan({Step(Kind::kShuffle, buffer), Step(Kind::kRepeat, 3)});
      model::Model oracle({{.num_records = size, .total_bytes = 0, .shard_records = {}}}, kSeed);
      const Rows expected = oracle.Elements(plan, 10000);
      ASSERT_EQ(expected.size(), 3 * size);
      const Order order = MakeOrder(plan, size);
      Rows rows(expected.size());
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = {.epoch = 0, .record = i};
      OrderMemo memo(order);
      order.Map(rows, &memo);
      ASSERT_EQ(rows, expected) << "size " << size << " buffer " << buffer;
    }
  }
}

// S-ORDER-8.
TEST(ShuffleTest, GivesEachElementOnceAndNoneEarlierThanTheBufferHasIt) {
  for (const uint64_t size : kSizes) {
    for (const uint64_t buffer : kBuffers) {
      const Order order = MakeOrder(Plan({Step(Kind::kShuffle, buffer)}), size);
      for (const uint64_t epoch : {0, 1}) {
        OrderMemo memo(order);
        const auto records = Records(order, 0, size, &memo, epoch);
        ExpectPermutation(records);
        for (uint64_t i = 0; i < size; ++i) {
          ASSERT_LE(records[i], std::min(2 * i, i + buffer - 1));
        }
      }
    }
  }
}

// S-ORDER-8.
TEST(ShuffleTest, EpochsDifferAndABufferOfOneChangesNothing) {
  const Order order = MakeOrder(Plan({Step(Kind::kShuffle, 64)}), 1000);
  EXPECT_NE(Records(order, 0, 1000, nullptr, 0), Records(order, 0, 1000, nullptr, 1));
  const auto same = Records(MakeOrder(Plan({Step(Kind::kShuffle, 1)}), 50), 0, 50, nullptr);
  EXPECT_TRUE(std::ranges::is_sorted(same));
}

// S-ORDER-8: the slot that is drawn is uniform, so elements wait for about b outputs.
TEST(ShuffleTest, ElementsWaitForAboutTheSizeOfTheBuffer) {
  constexpr uint64_t kBuffer = 1000, kRows = 100000;
  const Order order = MakeOrder(Plan({Step(Kind::kShuffle, kBuffer)}), 10 * kRows);
  const auto records = Records(order, kRows, kRows, nullptr);
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < kRows; ++i) {
    const double wait = static_cast<double>(kRows + i + kBuffer) - static_cast<double>(records[i]);
    sum += wait;
    squares += wait * wait;
  }
  // Geometric: mean b, deviation b.
  EXPECT_NEAR(sum / kRows, kBuffer, 0.05 * kBuffer);
  EXPECT_NEAR(std::sqrt(squares / kRows - sum / kRows * sum / kRows), kBuffer, 0.1 * kBuffer);
}

TEST(ShuffleTest, JumpsEqualWalking) {
  std::mt19937_64 random(5);
  for (const uint64_t buffer : {3, 50, 400}) {
    const Order order = MakeOrder(Plan({Step(Kind::kShuffle, buffer)}), 20000);
    OrderMemo walking(order), jumping(order);
    const auto all = Records(order, 0, 20000, &walking);
    for (int i = 0; i < 300; ++i) {
      const uint64_t first = random() % 20000;
      const uint64_t length = 1 + random() % std::min<uint64_t>(64, 20000 - first);
      const auto part = Records(order, first, length, i % 7 == 0 ? nullptr : &jumping);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), all.begin() + static_cast<int64_t>(first)));
    }
  }
}

// S-ORDER-8.
TEST(ShuffleTest, AGrowingStreamIsShuffledAsOneThatNeverEnds) {
  const Order finite = MakeOrder(Plan({Step(Kind::kShuffle, 30)}), 5000);
  const Order growing = MakeOrder(Plan({Step(Kind::kShuffle, 30)}), kInfinite);
  EXPECT_EQ(growing.size(), kInfinite);
  EXPECT_EQ(Records(growing, 0, 4970, nullptr), Records(finite, 0, 4970, nullptr));
}

// S-ORDER-10.
TEST(ShuffleTest, BeginsNoEpochOfItsInputBeforeItNeedsOne) {
  for (const uint64_t size : {1, 2, 3, 4, 5}) {
    for (const uint64_t buffer : {1, 2, 3, 4, 9}) {
      for (const uint64_t count : {1, 2, 3, 4, 5, 8}) {
        const OrderPlan plan = Plan({Step(Kind::kRepeat, 0), Step(Kind::kShuffle, buffer),
                                     Step(Kind::kTake, count), Step(Kind::kRepeat, 3)});
        model::Model oracle({{.num_records = size, .total_bytes = 0, .shard_records = {}}}, kSeed);
        Rows rows(3 * count);
        for (size_t i = 0; i < rows.size(); ++i) rows[i] = {.epoch = 0, .record = i};
        MakeOrder(plan, size).Map(rows, nullptr);
        ASSERT_EQ(rows, oracle.Elements(plan, 1000))
            << size << " records, " << buffer << " slots, take " << count;
      }
    }
  }
}

// S-ORDER-9.
TEST(BlockShuffleTest, BlocksStayTogetherWithoutAWindowOfMore) {
  // 16 bytes a record: blocks of 4 records, a window of one record mixes nothing.
  OrderStep step = Step(Kind::kGlobalShuffle, 64);
  step.second = 1;
  const Order order = MakeOrder(Plan({step}), 103, 103 * 16);
  const auto records = Records(order, 0, 103, nullptr);
  ExpectPermutation(records);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(records[i] % 4, i % 4);
    EXPECT_EQ(records[i] / 4, records[i / 4 * 4] / 4);
  }
  EXPECT_THAT(std::vector(records.end() - 3, records.end()), testing::ElementsAre(100, 101, 102));
  EXPECT_FALSE(std::ranges::is_sorted(records));
}

// S-ORDER-9.
TEST(BlockShuffleTest, WindowsMixTheirBlocksOnlyAndSixteenBlocksIsTheDefault) {
  OrderStep unmixed = Step(Kind::kGlobalShuffle, 64);
  unmixed.second = 1;
  const Order blocks = MakeOrder(Plan({unmixed}), 1003, 1003 * 16);
  const Order mixed = MakeOrder(Plan({Step(Kind::kGlobalShuffle, 64)}), 1003, 1003 * 16);
  const auto before = Records(blocks, 0, 1003, nullptr);
  const auto after = Records(mixed, 0, 1003, nullptr);
  EXPECT_NE(after, before);
  for (size_t begin = 0; begin < 1003; begin += 64) {
    const size_t end = std::min<size_t>(begin + 64, 1003);
    EXPECT_THAT(std::vector(after.begin() + static_cast<int64_t>(begin),
                            after.begin() + static_cast<int64_t>(end)),
                testing::UnorderedElementsAreArray(before.begin() + static_cast<int64_t>(begin),
                                                   before.begin() + static_cast<int64_t>(end)));
  }
  EXPECT_NE(Records(mixed, 0, 1003, nullptr, 1), after);
}

// S-ORDER-9.
TEST(BlockShuffleTest, IsAPermutationForEverySizeBlockAndWindow) {
  for (const uint64_t size : kSizes) {
    for (const uint64_t block_bytes : {1, 8, 40, 4000}) {
      for (const uint64_t window : {0, 1, 3, 50, 5000}) {
        OrderStep step = Step(Kind::kGlobalShuffle, block_bytes);
        step.second = window;
        const Order order = MakeOrder(Plan({step}), size, size * 8);
        ExpectPermutation(Records(order, 0, size, nullptr));
      }
    }
  }
}

}  // namespace
}  // namespace millrace::pipeline
