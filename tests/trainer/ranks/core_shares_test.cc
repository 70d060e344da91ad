#include "trainer/ranks/core_shares.h"

#include <gmock/gmock.h>

#include "base/affinity.h"
#include "collectives/factory.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CoreSharesTest, AProcessAloneSharesItsCoresOut) {
  const std::vector<ProcessCores> alone = {{"a", {0, 4, 1, 5}}};
  EXPECT_THAT(ShareCores(alone, 0, 2), ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5)));
  EXPECT_THAT(ShareCores(alone, 0, 3),
              ElementsAre(ElementsAre(0), ElementsAre(4), ElementsAre(1, 5)));
}

TEST(CoreSharesTest, ProcessesWithTheSameCoresTakeDifferentOnes) {
  const std::vector<ProcessCores> processes = {
      {"a", {0, 1, 2, 3}}, {"b", {0, 1, 2, 3}}, {"a", {0, 1, 2, 3}}};
  EXPECT_THAT(ShareCores(processes, 0, 2), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(ShareCores(processes, 2, 2), ElementsAre(ElementsAre(2), ElementsAre(3)));
  EXPECT_THAT(ShareCores(processes, 1, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(CoreSharesTest, ProcessesThatALauncherHasBoundShareTheirOwn) {
  const std::vector<ProcessCores> processes = {{"a", {0, 1}}, {"a", {2, 3}}};
  EXPECT_THAT(ShareCores(processes, 1, 2), ElementsAre(ElementsAre(2), ElementsAre(3)));
}

TEST(CoreSharesTest, NobodyIsBoundWhereCoresDoNotSuffice) {
  const std::vector<ProcessCores> two = {{"a", {0, 1}}, {"a", {0, 1}}};
  EXPECT_THAT(ShareCores(two, 0, 2), IsEmpty());
  EXPECT_THAT(ShareCores(two, 0, 1), ElementsAre(ElementsAre(0)));
}

TEST(CoreSharesTest, NobodyIsBoundWhereProcessesHaveSomeCoresInCommon) {
  const std::vector<ProcessCores> processes = {{"a", {0, 1, 2}}, {"a", {2, 3}}};
  EXPECT_THAT(ShareCores(processes, 0, 1), IsEmpty());
  EXPECT_THAT(ShareCores(processes, 1, 1), IsEmpty());
}

TEST(CoreSharesTest, EveryProcessHearsOfAll) {
  const absl::Status run = collectives::RunRanks(2, [](collectives::Communicator& process) {
    const auto cores = GatherCores(process);
    if (!cores.ok()) return cores.status();
    EXPECT_EQ(cores->size(), 2u);
    for (const ProcessCores& of : *cores) {
      EXPECT_EQ(of.processors, UsableProcessors());
      EXPECT_EQ(of.host, cores->front().host);
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(run.ok()) << run;
}

}  // namespace
}  // namespace millrace::trainer
