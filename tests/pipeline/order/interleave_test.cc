#include "pipeline/order/interleave.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "pipeline/order/order.h"
#include "tests/pipeline/executor/fake_ops.h"
#include "tests/pipeline/order/order_model.h"

namespace millrace::pipeline {
namespace {

using model::Kind;
using model::Rows;

std::vector<uint64_t> Numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<uint64_t> numbers;
  for (uint64_t number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

OrderSource Files(std::vector<uint64_t> lengths) {
  OrderSource source;
  for (const uint64_t length : lengths) source.num_records += length;
  source.shard_records = std::move(lengths);
  return source;
}

OrderPlan Plan(uint64_t cycle_length, uint64_t block_length, bool shuffle_files = false) {
  OrderPlan plan;
  plan.steps = {Step(Kind::kInterleave, cycle_length)};
  plan.steps[0].second = block_length;
  plan.steps[0].shuffle_files = shuffle_files;
  return plan;
}

std::vector<uint64_t> Records(const Order& order, uint64_t epoch = 0) {
  Rows rows(order.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = {.epoch = epoch, .record = i};
  order.Map(rows, nullptr);
  std::vector<uint64_t> records;
  for (const SampleId& id : rows) records.push_back(id.record);
  return records;
}

// S-ORDER-7.
TEST(InterleaveTest, OrderEqualsTheRecordedOneOfTensorFlow) {
  const char* root = std::getenv("MILLRACE_SOURCE_DIR");
  ASSERT_NE(root, nullptr);
  std::ifstream in(std::string(root) + "/tests/fixtures/interleave_order.txt");
  int cases = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    const size_t first = line.find('|'), second = line.find('|', first + 1);
    ASSERT_NE(second, std::string::npos);
    const auto parameters = Numbers(line.substr(0, first));
    const auto lengths = Numbers(line.substr(first + 1, second - first - 1));
    const OrderSource source = Files(lengths);
    const auto order = Order::Make(Plan(parameters[0], parameters[1]), {&source, 1}, 1);
    ASSERT_TRUE(order.ok()) << order.status();
    ASSERT_EQ(Records(*order), Numbers(line.substr(second + 1))) << line;
    ++cases;
  }
  EXPECT_EQ(cases, 480);
}

// S-ORDER-7.
TEST(InterleaveTest, RandomFilesEqualTheKernelAndAnyElementIsFoundAlone) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::vector<uint64_t> lengths(random() % 20);
    const uint32_t longest = 1 + random() % 30;
    for (uint64_t& length : lengths) length = random() % 4 == 0 ? 0 : random() % longest;
    const uint64_t cycle = 1 + random() % 8, block = 1 + random() % 6;
    std::vector<uint64_t> opening(lengths.size());
    for (size_t f = 0; f < opening.size(); ++f) opening[f] = f;
    const auto expected = model::InterleaveKernel(lengths, opening, cycle, block);
    const InterleaveTable table(lengths, cycle, block);
    std::vector<uint64_t> first(lengths.size() + 1, 0);
    for (size_t f = 0; f < lengths.size(); ++f) first[f + 1] = first[f] + lengths[f];
    InterleaveTable::Cursor walking, jumping;
    for (size_t p = 0; p < expected.size(); ++p) {
      const auto element = table.At(p, walking);
      ASSERT_EQ(first[element.file] + element.index, expected[p]) << "case " << i << " at " << p;
      const size_t q = random() % expected.size();
      const auto other = table.At(q, jumping);
      ASSERT_EQ(first[other.file] + other.index, expected[q]) << "case " << i << " at " << q;
    }
  }
}

// S-ORDER-7.
TEST(InterleaveTest, ShuffledFilesComeInAnotherOrderEachEpoch) {
  const OrderSource source = Files({5, 0, 9, 2, 7, 7, 1, 12});
  OrderPlan plan = Plan(3, 2, /*shuffle_files=*/true);
  const auto order = Order::Make(plan, {&source, 1}, 1);
  ASSERT_TRUE(order.ok());
  for (const uint64_t epoch : {0, 1, 2}) {
    auto records = Records(*order, epoch);
    EXPECT_NE(records, Records(*order, epoch + 1));
    std::ranges::sort(records);
    for (uint64_t r = 0; r < source.num_records; ++r) ASSERT_EQ(records[r], r);
  }
  plan.steps.push_back(Step(Kind::kRepeat, 4));
  model::Model oracle({source}, 1);
  const Rows expected = oracle.Elements(plan, 1000);
  const auto repeated = Order::Make(plan, {&source, 1}, 1);
  OrderMemo memo(*repeated);
  for (int pass = 0; pass < 2; ++pass) {  // the second one jumps back by three epochs
    Rows rows(expected.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = {.epoch = 0, .record = i};
    repeated->Map(rows, &memo);
    EXPECT_EQ(rows, expected);
  }
}

TEST(InterleaveTest, HugeParametersAreAsGoodAsTheLargestThatMatter) {
  const OrderSource source = Files({5, 3, 0, 4});
  const auto huge = Order::Make(Plan(~uint64_t{0}, ~uint64_t{0}), {&source, 1}, 1);
  const auto enough = Order::Make(Plan(4, 6), {&source, 1}, 1);
  EXPECT_EQ(Records(*huge), Records(*enough));
}

}  // namespace
}  // namespace millrace::pipeline
