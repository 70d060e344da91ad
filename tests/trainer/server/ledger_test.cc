#include "trainer/server/ledger.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LedgerTest : public ::testing::Test {
 protected:
  // All workers are there and ready.
  Ledger Start(const LedgerOptions& options, uint64_t version = 0) {
    Ledger ledger(options, version, std::vector<DataPosition>(options.workers));
    for (int i = 0; i < options.workers; ++i) {
      EXPECT_TRUE(ledger.Join(i).ok());
      EXPECT_FALSE(ledger.has_started());
      ledger.SetReady(i);
    }
    EXPECT_TRUE(ledger.has_started());
    return ledger;
  }
  static Claim Of(const Ledger& ledger, int worker, uint64_t version, uint64_t batches) {
    Claim claim;
    claim.worker = worker;
    claim.life = ledger.life(worker);
    claim.version = version;
    claim.rows = 2;
    claim.position = {batches, absl::StrCat("token ", batches)};
    return claim;
  }
  static Ruling Take(Ledger& ledger, int worker, uint64_t version, uint64_t batches) {
    absl::StatusOr<Ruling> ruling = ledger.Take(Of(ledger, worker, version, batches));
    EXPECT_TRUE(ruling.ok()) << ruling.status();
    return ruling.ok() ? *ruling : Ruling();
  }
  static std::vector<int> Workers(const std::vector<Claim>& claims) {
    std::vector<int> workers;
    for (const Claim& claim : claims) workers.push_back(claim.worker);
    return workers;
  }
};

constexpr LedgerOptions kThree = {.workers = 3, .synchronous = true, .total = 10, .batches = 10};
constexpr LedgerOptions kLate = {.workers = 2, .max_staleness = 1, .total = 20, .batches = 10};

TEST_F(LedgerTest, ASynchronousUpdateIsOfAllWorkersInTheirOrder) {
  Ledger ledger = Start(kThree);
  EXPECT_THAT(Take(ledger, 2, 0, 1).applied, IsEmpty());
  EXPECT_THAT(Take(ledger, 0, 0, 1).applied, IsEmpty());
  EXPECT_EQ(ledger.version(), 0u);
  EXPECT_THAT(Workers(Take(ledger, 1, 0, 1).applied), ElementsAre(0, 1, 2));
  EXPECT_EQ(ledger.version(), 1u);
  EXPECT_THAT(ledger.counts().staleness, ElementsAre(3));
}

TEST_F(LedgerTest, NoUpdateWaitsForBackupWorkersWhoseBatchIsDone) {
  LedgerOptions options = kThree;
  options.backup_workers = 1;
  Ledger ledger = Start(options);
  Take(ledger, 2, 0, 1);
  EXPECT_THAT(Workers(Take(ledger, 1, 0, 1).applied), ElementsAre(1, 2));
  const Ruling late = Take(ledger, 0, 0, 1);
  EXPECT_THAT(Workers(late.dropped), ElementsAre(0));
  EXPECT_THAT(late.applied, IsEmpty());
  EXPECT_EQ(ledger.position(0).batches, 1u);
  EXPECT_EQ(ledger.counts().dropped, 1u);
  EXPECT_EQ(ledger.version(), 1u);
}

TEST_F(LedgerTest, AnUpdateThatWaitsForALostWorkerIsMadeWithoutIt) {
  Ledger ledger = Start(kThree);
  Take(ledger, 0, 0, 1);
  Take(ledger, 2, 0, 1);
  EXPECT_TRUE(ledger.is_awaited(1));
  EXPECT_THAT(Workers(ledger.Lose(1).applied), ElementsAre(0, 2));
  EXPECT_EQ(ledger.version(), 1u);
  EXPECT_EQ(ledger.counts().lost, 1u);
}

TEST_F(LedgerTest, TheGradientOfALostWorkerThatWaitsIsGivenUp) {
  Ledger ledger = Start(kThree);
  Take(ledger, 1, 0, 1);
  EXPECT_THAT(ledger.Lose(1).applied, IsEmpty());
  EXPECT_EQ(ledger.position(1).batches, 0u);  // the next process reads the batch again
  Take(ledger, 0, 0, 1);
  EXPECT_THAT(Workers(Take(ledger, 2, 0, 1).applied), ElementsAre(0, 2));
}

TEST_F(LedgerTest, AWorkerComesAgainBehindTheLastBatchThatCounted) {
  Ledger ledger = Start(kLate);
  Take(ledger, 1, 0, 1);
  const Claim old = Of(ledger, 1, 1, 2);
  ledger.Lose(1);
  EXPECT_EQ(ledger.position(1).token, "token 1");
  EXPECT_EQ(ledger.Take(old).status().code(), absl::StatusCode::kInvalidArgument);
  const auto life = ledger.Join(1);
  ASSERT_TRUE(life.ok());
  EXPECT_NE(*life, old.life);
  EXPECT_EQ(ledger.Join(1).status().code(), absl::StatusCode::kAlreadyExists);
  ledger.SetReady(1);
  EXPECT_EQ(ledger.Take(old).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Workers(Take(ledger, 1, 1, 2).applied), ElementsAre(1));
  EXPECT_EQ(ledger.counts().joined, 1u);
}

TEST_F(LedgerTest, AnUpdateWaitsForAWorkerFromItsComingOn) {
  Ledger ledger = Start(kThree);
  ledger.Lose(2);
  Take(ledger, 0, 0, 1);
  ASSERT_TRUE(ledger.Join(2).ok());
  ledger.SetReady(2);
  EXPECT_THAT(Take(ledger, 1, 0, 1).applied, IsEmpty());
  EXPECT_THAT(Workers(Take(ledger, 2, 0, 1).applied), ElementsAre(0, 1, 2));
}

TEST_F(LedgerTest, AGradientMayBeAsLateAsTheLimit) {
  Ledger ledger = Start(kLate);
  Take(ledger, 0, 0, 1);
  EXPECT_THAT(Workers(Take(ledger, 1, 0, 1).applied), ElementsAre(1));  // one update late
  Take(ledger, 0, 2, 2);
  Take(ledger, 0, 3, 3);
  EXPECT_THAT(Workers(Take(ledger, 1, 2, 2).dropped), ElementsAre(1));  // two
  EXPECT_THAT(ledger.counts().staleness, ElementsAre(3, 1));
  EXPECT_EQ(ledger.counts().dropped, 1u);
  EXPECT_EQ(ledger.version(), 4u);
}

TEST_F(LedgerTest, AGradientOfAVersionThatIsNotThereIsRefused) {
  Ledger ledger = Start(kLate);
  EXPECT_EQ(ledger.Take(Of(ledger, 0, 1, 1)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LedgerTest, ItIsOverWhenThoseWhoAreThereHaveDoneAllOfTheirBatches) {
  Ledger ledger = Start(kLate);
  Take(ledger, 0, 0, 10);
  EXPECT_FALSE(ledger.is_over());
  EXPECT_FALSE(ledger.is_awaited(0));
  ledger.Lose(1);
  EXPECT_TRUE(ledger.is_over());
}

TEST_F(LedgerTest, ItIsOverAfterTheLastUpdate) {
  Ledger ledger = Start(kThree, /*version=*/9);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(ledger.is_over());
    Take(ledger, i, 9, 1);
  }
  EXPECT_TRUE(ledger.is_over());
}

TEST_F(LedgerTest, AStopGivesUpTheGradientsThatWait) {
  Ledger ledger = Start(kThree);
  Take(ledger, 1, 0, 1);
  EXPECT_THAT(ledger.Stop(), ElementsAre(1));
  EXPECT_EQ(ledger.position(1).batches, 0u);
  EXPECT_EQ(ledger.version(), 0u);
}

}  // namespace
}  // namespace millrace::trainer
