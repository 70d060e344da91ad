#include "pipeline/run/kept_records.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace millrace::pipeline {
namespace {

class KeptRecordsTest : public testing::Test {
 protected:
  // Records first, first + 1, ... (`count` of them), for which `bytes` are reserved.
  std::shared_ptr<const KeptRecords> Make(uint64_t first, size_t count, int64_t bytes = 10) {
    auto records = std::make_shared<KeptRecords>();
    records->first = first;
    records->payloads.assign(count, "payload");
    records->budget = budget_;
    records->reserved_bytes = bytes;
    budget_->Reserve(bytes);
    return records;
  }
  // The first position of what is found, or -1.
  int64_t Found(uint64_t lane, uint64_t position) {
    const auto records = keeper_.Find(lane, position);
    return records == nullptr ? -1 : static_cast<int64_t>(records->first);
  }

  const std::shared_ptr<MemoryBudget> budget_ =
      std::make_shared<MemoryBudget>(1000, std::make_shared<Metrics>());
  RecordKeeper keeper_{100};
};

TEST_F(KeptRecordsTest, FindsByLaneAndPositionInWhateverOrderTheyCame) {
  keeper_.Keep(1, Make(8, 4));
  keeper_.Keep(1, Make(0, 4));
  keeper_.Keep(2, Make(0, 9));
  EXPECT_EQ(Found(1, 0), 0);
  EXPECT_EQ(Found(1, 3), 0);
  EXPECT_EQ(Found(1, 4), -1);  // nobody kept them
  EXPECT_EQ(Found(1, 8), 8);
  EXPECT_EQ(Found(1, 11), 8);
  EXPECT_EQ(Found(1, 12), -1);
  EXPECT_EQ(Found(2, 8), 0);
  EXPECT_EQ(Found(3, 0), -1);
}

TEST_F(KeptRecordsTest, FreesWhatLiesWellBeforeThePositionAskedFor) {
  for (const uint64_t first : {0, 10, 20, 30}) keeper_.Keep(0, Make(first, 10));
  keeper_.Keep(1, Make(0, 10));
  EXPECT_EQ(budget_->reserved_bytes(), 50);
  EXPECT_EQ(Found(0, 35), 30);
  EXPECT_EQ(budget_->reserved_bytes(), 30);  // the last before, what was found, the other lane's
  EXPECT_EQ(Found(0, 25), 20);
  EXPECT_EQ(Found(0, 15), -1);
  EXPECT_EQ(Found(1, 5), 0);
}

TEST_F(KeptRecordsTest, WhoHasFoundThemKeepsThem) {
  keeper_.Keep(0, Make(0, 4));
  std::shared_ptr<const KeptRecords> found = keeper_.Find(0, 1);
  keeper_.Clear();
  EXPECT_EQ(Found(0, 1), -1);
  EXPECT_EQ(budget_->reserved_bytes(), 10);
  EXPECT_EQ(found->payload(1), "payload");
  found.reset();
  EXPECT_EQ(budget_->reserved_bytes(), 0);
}

TEST_F(KeptRecordsTest, TakesNoMoreThanItsLimit) {
  keeper_.Keep(0, Make(0, 4, 60));
  EXPECT_TRUE(keeper_.HasRoomFor(40));
  EXPECT_FALSE(keeper_.HasRoomFor(41));
  keeper_.Keep(0, Make(4, 4, 41));
  EXPECT_EQ(budget_->reserved_bytes(), 60);
  EXPECT_EQ(Found(0, 4), -1);
  keeper_.Keep(0, Make(4, 4, 40));
  EXPECT_EQ(Found(0, 4), 4);
  EXPECT_FALSE(keeper_.HasRoomFor(1));
  keeper_.Clear();
  EXPECT_TRUE(keeper_.HasRoomFor(100));
}

}  // namespace
}  // namespace millrace::pipeline
