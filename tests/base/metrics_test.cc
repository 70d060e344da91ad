#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr CounterFamily kCount{{.name = "b_total", .unit = "rows", .help = "rows"}};
constexpr CounterFamily kByReason{
    {.name = "bad_total", .unit = "rows", .help = "bad rows", .label = "reason"}};
constexpr CounterFamily kTime{{.name = "work_seconds_total", .unit = "seconds", .help = "work"}};
constexpr GaugeFamily kDepth{{.name = "depth", .unit = "batches", .help = "a depth"}, true};
constexpr GaugeFamily kLoss{{.name = "loss", .unit = "nats", .help = "a loss"}};
constexpr HistogramFamily kWait{{.name = "wait_seconds", .unit = "seconds", .help = "waits"}};

TEST(Metrics, TheSameNameAndLabelAreTheSameCounter) {
  Metrics metrics;
  Counter& counter = metrics.counter(kByReason, "crc");
  metrics.counter(kByReason, "crc").Add(2);
  counter.Add();
  metrics.counter(kByReason, "length").Add(5);
  EXPECT_EQ(&metrics.counter(kByReason, "crc"), &counter);
  EXPECT_EQ(counter.value(), 3);
  EXPECT_THAT(metrics.CountersOf(kByReason), ElementsAre(Pair("crc", 3), Pair("length", 5)));
  EXPECT_TRUE(metrics.CountersOf(kCount).empty());
}

TEST(Metrics, AGaugeRemembersItsHighest) {
  Metrics metrics;
  Gauge& gauge = metrics.gauge(kDepth);
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

TEST(Metrics, AHistogramCountsATimeInTheFirstBinThatItFits) {
  Histogram histogram;
  histogram.Add(0);
  histogram.Add(10'000);
  histogram.Add(10'001);
  histogram.Add(50'000'000'000);
  histogram.Add(std::numeric_limits<int64_t>::max() / 2);
  const Histogram::Counts counts = histogram.counts();
  EXPECT_EQ(counts[0], 2);
  EXPECT_EQ(counts[1], 1);
  EXPECT_EQ(counts[20], 1);
  EXPECT_EQ(counts[21], 1);
  EXPECT_EQ(histogram.count(), 5);
}

TEST(Metrics, SnapshotHoldsEverySampleInTheUnitThatItsNameSays) {
  Metrics metrics;
  metrics.counter(kCount).Add(4);
  metrics.counter(kByReason, "crc").Add(1);
  metrics.counter(kTime).Add(1'500'000'000);
  metrics.gauge(kDepth).Set(3);
  metrics.gauge(kDepth).Set(2);
  metrics.gauge(kLoss).Set(0.25);
  EXPECT_THAT(
      metrics.Snapshot(),
      ElementsAre(Pair("b_total", 4), Pair("bad_total{reason=\"crc\"}", 1), Pair("depth", 2),
                  Pair("depth_max", 3), Pair("loss", 0.25), Pair("work_seconds_total", 1.5)));
}

TEST(Metrics, TextHasTheLinesOfPrometheusInTheOrderOfNames) {
  Metrics metrics;
  metrics.gauge(kDepth).Set(1e15);
  metrics.counter(kByReason, "a \"b\"\\\n").Add(7);
  metrics.gauge(kLoss).Set(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(metrics.PrometheusText(),
            "# HELP bad_total bad rows\n"
            "# TYPE bad_total counter\n"
            "bad_total{reason=\"a \\\"b\\\"\\\\\\n\"} 7\n"
            "# HELP depth a depth\n"
            "# TYPE depth gauge\n"
            "depth 1000000000000000\n"
            "# HELP depth_max highest so far: a depth\n"
            "# TYPE depth_max gauge\n"
            "depth_max 1000000000000000\n"
            "# HELP loss a loss\n"
            "# TYPE loss gauge\n"
            "loss NaN\n");
}

TEST(Metrics, EachBucketOfAHistogramsTextHasThoseBeforeIt) {
  Metrics metrics;
  metrics.histogram(kWait).Add(20'000);
  metrics.histogram(kWait).Add(2'000'000);
  metrics.histogram(kWait).Add(99'000'000'000);
  const std::string text = metrics.PrometheusText();
  EXPECT_THAT(text, HasSubstr("# TYPE wait_seconds histogram\n"
                              "wait_seconds_bucket{le=\"1e-05\"} 0\n"
                              "wait_seconds_bucket{le=\"2.5e-05\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"0.001\"} 1\n"
                              "wait_seconds_bucket{le=\"0.0025\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"50\"} 2\n"
                              "wait_seconds_bucket{le=\"+Inf\"} 3\n"
                              "wait_seconds_sum 99.00202\n"
                              "wait_seconds_count 3\n"));
}

TEST(Metrics, ARefreshIsCalledBeforeEachLookUntilItIsRemoved) {
  Metrics metrics;
  const int64_t number = metrics.AddRefresh([&metrics] { metrics.counter(kCount).Add(); });
  EXPECT_EQ(metrics.Snapshot().at("b_total"), 1);
  (void)metrics.PrometheusText();
  metrics.RemoveRefresh(number);
  EXPECT_EQ(metrics.Snapshot().at("b_total"), 2);
}

TEST(Metrics, ReferencesOutliveLaterNames) {
  Metrics metrics;
  Counter& first = metrics.counter(kByReason, "first");
  for (int i = 0; i < 1000; ++i) metrics.counter(kByReason, "n" + std::to_string(i));
  first.Add();
  EXPECT_EQ(metrics.CountersOf(kByReason).at("first"), 1);
}

TEST(Metrics, NothingIsLostUnderThreads) {
  constexpr int kThreads = 8, kAdds = 5000;
  Metrics metrics;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&metrics, t] {
      for (int i = 0; i < kAdds; ++i) {
        metrics.counter(kCount).Add();
        metrics.counter(kByReason, std::to_string(t)).Add();
        metrics.gauge(kDepth).Add(1);
        metrics.gauge(kDepth).Add(-1);
        metrics.histogram(kWait).Add(i);
        if (i % 1000 == 0) (void)metrics.Snapshot();
      }
    });
  }
  threads.clear();
  const auto values = metrics.Snapshot();
  EXPECT_EQ(values.at("b_total"), kThreads * kAdds);
  for (const auto& [label, count] : metrics.CountersOf(kByReason)) EXPECT_EQ(count, kAdds) << label;
  EXPECT_EQ(values.at("wait_seconds_count"), kThreads * kAdds);
  EXPECT_EQ(values.at("depth"), 0);
  EXPECT_GE(values.at("depth_max"), 1);
  EXPECT_LE(values.at("depth_max"), kThreads);
}

}  // namespace
}  // namespace millrace
