#include "trainer/ranks/step_sums.h"

#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/peer_lost.h"
#include "collectives/timeline_progress.h"
#include "tests/messages.h"

namespace millrace::trainer {
namespace {

using collectives::Communicator;

// Runs `body` on three ranks, and returns what each got.
std::vector<absl::Status> OnRanks(
    const std::function<absl::Status(Communicator& communicator, StepSums& sums)>& body) {
  std::vector<absl::Status> statuses(3);
  const absl::Status status =
      collectives::RunRanks(3, [&](Communicator& communicator) -> absl::Status {
        collectives::TimelineProgress progress(nullptr, nullptr);
        MILLRACE_ASSIGN_OR_RETURN(const auto sums, StepSums::Make(communicator, progress));
        statuses[communicator.rank()] = body(communicator, *sums);
        return communicator.Barrier();
      });
  EXPECT_TRUE(status.ok()) << status;
  return statuses;
}

TEST(StepSumsTest, EveryRankGetsTheSums) {
  const auto statuses = OnRanks([](Communicator& communicator, StepSums& sums) -> absl::Status {
    std::array<double, 2> values = {1.0 * communicator.rank(), 0.1};
    MILLRACE_RETURN_IF_ERROR(sums.Add(7, values));
    EXPECT_EQ(values[0], 3);
    EXPECT_EQ(values[1], 0.1 + 0.1 + 0.1);
    EXPECT_GT(sums.TakeSeconds(), 0);
    EXPECT_EQ(sums.TakeSeconds(), 0);
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

// Rank 1 leaves in step `step`; the others come to a sum of it.
std::vector<absl::Status> Leave(int64_t step, const absl::Status& why) {
  return OnRanks([&](Communicator& communicator, StepSums& sums) -> absl::Status {
    double value = 1;
    MILLRACE_RETURN_IF_ERROR(sums.Add(7, {&value, 1}));
    if (communicator.rank() != 1) return sums.Add(step, {&value, 1});
    sums.Leave(step, why);
    return absl::OkStatus();
  });
}

TEST(StepSumsTest, ALeaverTellsWhereAndWhy) {
  const absl::Status why = absl::DataLossError("a disk");
  for (const int64_t step : {7, 8}) {
    const auto statuses = Leave(step, why);
    for (const int rank : {0, 2}) {
      EXPECT_MESSAGE(statuses[rank], absl::StatusCode::kUnavailable, absl::StrCat("step", step));
      const auto lost = collectives::PeerLostOf(statuses[rank]);
      ASSERT_TRUE(lost.has_value()) << statuses[rank];
      EXPECT_EQ(lost->rank, 1);
      EXPECT_EQ(lost->step, step);
    }
  }
}

TEST(StepSumsTest, TheLossOfAnotherRankIsPassedOn) {
  const absl::Status lost = collectives::PeerLostError({.rank = 2, .step = 7}, "it is gone");
  const absl::Status heard = Leave(7, lost)[0];
  EXPECT_EQ(heard.message(), lost.message());
  EXPECT_EQ(collectives::PeerLostOf(heard).value_or(collectives::PeerLost()).rank, 2);
}

}  // namespace
}  // namespace millrace::trainer
