#include "base/metric_sum.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/metric_table.h"

namespace millrace {
namespace {

TEST(SumOf, IsOverAllValuesOfTheLabel) {
  Metrics metrics;
  EXPECT_EQ(SumOf(metrics, metric::kRecordsDamaged), 0);
  metrics.counter(metric::kRecordsDamaged, "data_crc").Add(3);
  metrics.counter(metric::kRecordsDamaged, "length").Add(2);
  EXPECT_EQ(SumOf(metrics, metric::kRecordsDamaged), 5);
  metrics.counter(metric::kBatches).Add(7);
  EXPECT_EQ(SumOf(metrics, metric::kBatches), 7);
}

TEST(ShareOf, TheSharesAddUpAndDoNotFall) {
  std::vector<int64_t> before(3);
  for (int64_t sum = 0; sum < 10; ++sum) {
    int64_t shared = 0;
    for (int part = 0; part < 3; ++part) {
      const int64_t share = ShareOf(sum, part, 3);
      EXPECT_GE(share, before[part]) << sum;
      EXPECT_LE(share, before[part] + 1) << sum;
      before[part] = share;
      shared += share;
    }
    EXPECT_EQ(shared, sum);
  }
}

}  // namespace
}  // namespace millrace
