#include "cli/metrics/process_metrics.h"

#include <gmock/gmock.h>

#include <memory>
#include <utility>

#include "base/metric_table.h"

namespace millrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

HostUse Use(int64_t bytes, int64_t switches) {
  HostUse use;
  use.device_read_bytes = bytes;
  use.call_read_bytes = 2 * bytes;
  use.voluntary_switches = switches;
  use.involuntary_switches = 3 * switches;
  return use;
}

TEST(ProcessMetricsTest, CountersHaveWhatTheProcessHasUsedByTheLook) {
  const auto metrics = std::make_shared<Metrics>();
  HostUse now = Use(100, 7);
  const ProcessMetrics process(metrics, [&now] { return now; });
  metrics->Collect();
  now = Use(150, 9);
  metrics->Collect();
  EXPECT_THAT(metrics->CountersOf(metric::kStorageReadBytes), ElementsAre(Pair("", 150)));
  EXPECT_THAT(metrics->CountersOf(metric::kCallReadBytes), ElementsAre(Pair("", 300)));
  EXPECT_THAT(metrics->CountersOf(metric::kContextSwitches),
              ElementsAre(Pair("involuntary", 27), Pair("voluntary", 9)));
}

TEST(ProcessMetricsTest, NumbersThatTheSystemDoesNotTellAreLeftOut) {
  const auto metrics = std::make_shared<Metrics>();
  const ProcessMetrics process(metrics, [] { return HostUse(); });
  metrics->Collect();
  EXPECT_THAT(metrics->CountersOf(metric::kStorageReadBytes), IsEmpty());
  EXPECT_THAT(metrics->CountersOf(metric::kCallReadBytes), IsEmpty());
}

TEST(ProcessMetricsTest, ARegistryThatOutlivesItIsLookedAtWithoutIt) {
  const auto metrics = std::make_shared<Metrics>();
  int looks = 0;
  {
    const ProcessMetrics process(metrics, [&looks] {
      ++looks;
      return HostUse();
    });
    metrics->Collect();
  }
  metrics->Collect();
  EXPECT_EQ(looks, 1);
}

}  // namespace
}  // namespace millrace::cli
