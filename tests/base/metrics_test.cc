#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(Metrics, TheSameNameIsTheSameCounter) {
  Metrics metrics;
  Counter& counter = metrics.counter("records_total");
  metrics.counter("records_total").Add(2);
  counter.Add();
  EXPECT_EQ(&metrics.counter("records_total"), &counter);
  EXPECT_EQ(counter.value(), 3);
}

TEST(Metrics, AGaugeRemembersItsHighest) {
  Metrics metrics;
  Gauge& gauge = metrics.gauge("open_bytes");
  gauge.Add(5);
  gauge.Add(7);
  gauge.Add(-10);
  EXPECT_EQ(gauge.value(), 2);
  EXPECT_EQ(gauge.max(), 12);
  gauge.Set(20);
  gauge.Set(1);
  EXPECT_EQ(gauge.value(), 1);
  EXPECT_EQ(gauge.max(), 20);
}

TEST(Metrics, SnapshotHoldsEveryNameAndTheHighestOfGauges) {
  Metrics metrics;
  metrics.counter("b_total").Add(4);
  metrics.gauge("a").Set(3);
  metrics.gauge("a").Set(2);
  EXPECT_THAT(metrics.Snapshot(), ElementsAre(Pair("a", 2), Pair("a_max", 3), Pair("b_total", 4)));
}

TEST(Metrics, ReferencesOutliveLaterNames) {
  Metrics metrics;
  Counter& first = metrics.counter("first_total");
  for (int i = 0; i < 1000; ++i) metrics.counter("n" + std::to_string(i));
  first.Add();
  EXPECT_EQ(metrics.Snapshot().at("first_total"), 1);
}

TEST(Metrics, NothingIsLostUnderThreads) {
  constexpr int kThreads = 8, kAdds = 5000;
  Metrics metrics;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&metrics, t] {
      for (int i = 0; i < kAdds; ++i) {
        metrics.counter("shared_total").Add();
        metrics.counter("own_total_" + std::to_string(t)).Add();
        metrics.gauge("depth").Add(1);
        metrics.gauge("depth").Add(-1);
        if (i % 1000 == 0) (void)metrics.Snapshot();
      }
    });
  }
  threads.clear();
  const auto values = metrics.Snapshot();
  EXPECT_EQ(values.at("shared_total"), kThreads * kAdds);
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(values.at("own_total_" + std::to_string(t)), kAdds);
  EXPECT_EQ(values.at("depth"), 0);
  EXPECT_GE(values.at("depth_max"), 1);
  EXPECT_LE(values.at("depth_max"), kThreads);
}

}  // namespace
}  // namespace millrace
