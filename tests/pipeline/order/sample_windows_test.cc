#include "pipeline/order/sample_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/messages.h"
#include "tests/pipeline/executor/fake_ops.h"

// Which elements windows have, and that a run of them has each once. Over a source whose order is
// that of its records an element is its number.

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;

WindowPlan PlanOf(uint64_t size, uint64_t shift, uint64_t stride) {
  return {.stage = "window",
          .order = {},
          .size = size,
          .shift = shift,
          .stride = stride,
          .drop_remainder = true};
}

std::unique_ptr<const SampleWindows> Make(const WindowPlan& plan, uint64_t records,
                                          uint64_t bytes = 0) {
  const OrderSource source{.num_records = records, .total_bytes = bytes, .shard_records = {}};
  auto windows = SampleWindows::Make(plan, {&source, 1}, 5, nullptr);
  EXPECT_TRUE(windows.ok()) << windows.status();
  return *std::move(windows);
}

std::vector<SampleId> Windows(const std::vector<uint64_t>& numbers, uint64_t epoch = 0) {
  std::vector<SampleId> windows;
  for (const uint64_t number : numbers) windows.push_back({.epoch = epoch, .record = number});
  return windows;
}

// Checks every element by its number and epoch; returns how many there are, each once.
size_t Located(const SampleWindows& windows, const WindowPlan& plan,
               const std::vector<SampleId>& ids) {
  WindowElements elements;
  windows.Locate(ids, elements);
  EXPECT_EQ(elements.at.size(), ids.size() * plan.size);
  for (size_t row = 0; row < ids.size(); ++row) {
    for (size_t i = 0; i < plan.size; ++i) {
      const uint32_t at = elements.at[row * plan.size + i];
      EXPECT_LT(at, elements.ids.size());
      EXPECT_EQ(elements.ids[at].epoch, ids[row].epoch);
      EXPECT_EQ(elements.ids[at].record, ids[row].record * plan.shift + i * plan.stride);
      if (i == 0) continue;
      EXPECT_GT(at, elements.at[row * plan.size + i - 1]);
    }
  }
  return elements.ids.size();
}

// S-WINDOW-1.
TEST(SampleWindowsTest, ThereAreAsManyAsAreFull) {
  EXPECT_EQ(Make(PlanOf(3, 1, 1), 10)->num_windows(), 8u);
  EXPECT_EQ(Make(PlanOf(3, 3, 1), 10)->num_windows(), 3u);
  EXPECT_EQ(Make(PlanOf(3, 1, 4), 10)->num_windows(), 2u);
  EXPECT_EQ(Make(PlanOf(3, 1, 4), 9)->num_windows(), 1u);
  EXPECT_EQ(Make(PlanOf(3, 1, 4), 8)->num_windows(), 0u);
  EXPECT_EQ(Make(PlanOf(1, 4, 1), 9)->num_windows(), 3u);
  EXPECT_EQ(Make(PlanOf(3, 1, 1), kInfinite)->num_windows(), kInfinite);
}

// S-WINDOW-4.
TEST(SampleWindowsTest, WithoutDropRemainderAllWindowsHaveToBeFull) {
  for (uint64_t records = 0; records < 20; ++records) {
    for (const auto& [size, shift, stride] :
         {std::tuple{3, 3, 1}, {3, 1, 1}, {2, 5, 1}, {2, 5, 3}, {1, 1, 1}, {3, 7, 3}}) {
      WindowPlan plan = PlanOf(size, shift, stride);
      plan.drop_remainder = false;
      bool full = true;  // by the elements that the last window would have
      for (uint64_t begin = 0; begin < records; begin += plan.shift) {
        full &= begin + (plan.size - 1) * plan.stride < records;
      }
      const OrderSource source{.num_records = records, .total_bytes = 0, .shard_records = {}};
      EXPECT_EQ(SampleWindows::Make(plan, {&source, 1}, 5, nullptr).ok(), full)
          << size << " " << shift << " " << stride << " of " << records;
    }
  }
}

// S-WINDOW-3.
TEST(SampleWindowsTest, ARunHasEachElementOnceWhereWindowsOverlap) {
  const WindowPlan plan = PlanOf(24, 1, 1);
  const auto windows = Make(plan, 1000);
  std::vector<uint64_t> numbers(100);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 50 + i;
  EXPECT_EQ(Located(*windows, plan, Windows(numbers)), 123u);
  std::mt19937 random(3);
  std::ranges::shuffle(numbers, random);
  EXPECT_EQ(Located(*windows, plan, Windows(numbers, 7)), 123u);
  EXPECT_EQ(Located(*windows, plan, Windows({3, 3, 3})), 24u);
  EXPECT_EQ(Located(*windows, PlanOf(24, 1, 1), Windows({976})), 24u);
}

// S-WINDOW-1.
TEST(SampleWindowsTest, WindowsThatLieApartHaveTheirOwn) {
  for (const WindowPlan& plan : {PlanOf(5, 3, 2), PlanOf(4, 9, 1), PlanOf(2, 1, 40)}) {
    const auto windows = Make(plan, 5000);
    std::mt19937 random(5);
    for (int i = 0; i < 100; ++i) {
      std::vector<SampleId> ids;
      while (ids.size() < 1 + random() % 30) {
        ids.push_back({.epoch = random() % 3, .record = random() % windows->num_windows()});
      }
      EXPECT_LE(Located(*windows, plan, ids), ids.size() * plan.size);
    }
  }
  WindowElements elements;
  Make(PlanOf(2, 1, 1), 5)->Locate({}, elements);
  EXPECT_TRUE(elements.ids.empty());
}

// S-WINDOW-2: an epoch of the windows begins the elements' order anew.
TEST(SampleWindowsTest, EpochsAreThoseOfAZip) {
  WindowPlan plan = PlanOf(3, 2, 1);
  plan.order.steps = {Step(OrderStep::Kind::kTake, 4), Step(OrderStep::Kind::kRepeat, 2)};
  const auto windows = Make(plan, 10);
  EXPECT_EQ(windows->num_windows(), 3u);
  WindowElements elements;
  windows->Locate(Windows({1}, 5), elements);
  EXPECT_THAT(elements.ids,
              ElementsAre(SampleId{10, 2, 0}, SampleId{10, 3, 0}, SampleId{11, 0, 0}));
}

// S-WINDOW-6.
TEST(SampleWindowsTest, BytesAreThoseOfAllElements) {
  EXPECT_EQ(Make(PlanOf(3, 1, 1), 10, 1005)->facts().total_bytes, 2412u);  // 24 of 100.5
  EXPECT_EQ(Make(PlanOf(3, 3, 1), 10, 1005)->facts().total_bytes, 904u);
  EXPECT_EQ(Make(PlanOf(3, 3, 1), kInfinite)->facts().total_bytes, 0u);
}

}  // namespace
}  // namespace millrace::pipeline
