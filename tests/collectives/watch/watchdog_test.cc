#include "collectives/watchdog.h"

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/watch/watchdog.h"
#include "gtest/gtest.h"
#include "tests/collectives/turn_clock.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

using std::chrono::milliseconds;

absl::Status Fail(const std::string& text) { return absl::InternalError(text); }

constexpr int kRanks = 4;

// The clock of all ranks' watchdogs. Only the watching thread of a rank makes time pass: if the
// asking of its other thread counted too, it could be silent for turns while the clock goes on.
class WatchClock : public TurnClock {
 public:
  WatchClock() : TurnClock(kRanks, milliseconds(100)) {}

  Time AskedBy(int rank, bool watches) {
    if (watches) return Ask(rank);
    waits_[rank] = true;
    return Look();
  }
  // True if the caller of the rank's watchdog has asked for the time, as one that waits does.
  bool Waits(int rank) const { return waits_[rank]; }

 private:
  std::array<std::atomic<bool>, kRanks> waits_ = {};
};

// Thread ranks; `per_host` of them are taken for one host.
absl::StatusOr<std::unique_ptr<Watchdog>> Make(Communicator& job, int per_host, WatchClock& clock,
                                               const WatchdogOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const auto host, job.Split(job.rank() / per_host, job.rank()));
  WatchdogPace pace;
  pace.turn = milliseconds(1);
  // The last copy of the clock goes with the watchdog.
  const auto leave = [&clock, rank = job.rank()](void*) { clock.Leave(rank); };
  pace.clock = [&clock, rank = job.rank(), caller = std::this_thread::get_id(),
                watchdog = std::shared_ptr<void>(nullptr, leave)] {
    return clock.AskedBy(rank, std::this_thread::get_id() != caller);
  };
  return MakeWatchdog(job, *host, options, pace);
}

// Of 30 turns, and `abort` of as many tenths of a second.
WatchdogOptions Quick(milliseconds abort) {
  WatchdogOptions options;
  options.stall_report = milliseconds(3000);
  options.stall_abort = abort;
  options.address = "127.0.0.1";
  return options;
}

// Waits for `done`, which another thread brings about.
template <typename F>
bool Eventually(F done) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

class WatchdogTest : public testing::TestWithParam<int> {};  // ranks of one host, of four in all

std::string HostsName(const testing::TestParamInfo<int>& info) {
  return absl::StrCat(4 / info.param, "_hosts");
}

TEST_P(WatchdogTest, RanksThatWorkAndLeaveAreHealthy) {
  WatchClock clock;
  const absl::Status status = RunRanks(kRanks, [&](Communicator& job) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const auto watchdog,
                              Make(job, GetParam(), clock, Quick(milliseconds(0))));
    for (int step = 0; step < 10; ++step) {
      watchdog->Enter(step, -1, Phase::kBackward);
      const int64_t turns = clock.turns();
      if (!Eventually([&] { return clock.turns() > turns + 3; })) return Fail("no time passes");
      watchdog->Enter(step, 0, Phase::kWaiting);
      MILLRACE_RETURN_IF_ERROR(job.Barrier());
      MILLRACE_RETURN_IF_ERROR(watchdog->Health());
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(WatchdogTest, ASlowRankIsNamedWithItsPlaceAndIsNotLost) {
  std::atomic<int> by = 0;  // a bit of each rank that named it, perhaps more than once
  WatchClock clock;
  const absl::Status status = RunRanks(kRanks, [&](Communicator& job) -> absl::Status {
    WatchdogOptions options = Quick(milliseconds(0));
    options.on_stall = [&by, own = 1 << job.rank()](const Stall& stall) {
      const PeerLost& where = stall.where;
      const bool placed = where.step == 7 && where.bucket == 1 && where.phase == Phase::kBackward;
      if (where.rank == 3 && placed) by |= own;
    };
    MILLRACE_ASSIGN_OR_RETURN(const auto watchdog, Make(job, GetParam(), clock, options));
    if (job.rank() == 3) {
      watchdog->Enter(7, 1, Phase::kBackward);
      if (!Eventually([&by] { return by == 0b111; })) return Fail("not named by all others");
    } else {
      watchdog->Enter(7, 2, Phase::kWaiting);
    }
    MILLRACE_RETURN_IF_ERROR(job.Barrier());
    return watchdog->Health();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(WatchdogTest, ARankThatNeverComesOnIsGivenUpByAll) {
  WatchClock clock;
  const absl::Status status = RunRanks(kRanks, [&](Communicator& job) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const auto watchdog,
                              Make(job, GetParam(), clock, Quick(milliseconds(9000))));
    if (job.rank() == 3) {
      watchdog->Enter(7, 2, Phase::kReducing);
    } else {
      watchdog->Enter(7, 2, Phase::kWaiting);
    }
    if (!Eventually([&] { return !watchdog->Health().ok(); })) return Fail("still healthy");
    const absl::Status health = watchdog->Health();
    const std::optional<PeerLost> lost = PeerLostOf(health);
    if (!absl::IsUnavailable(health) || !lost) return Fail(health.ToString());
    if (lost->rank != 3 || lost->step != 7 || lost->bucket != 2 ||
        lost->phase != Phase::kReducing) {
      return Fail(health.ToString());
    }
    return job.Barrier();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Rank 0 is stuck elsewhere and comes when another acts already; rank 3 is gone. Rank 2 does not
// come before rank 1 has shown itself, for which a loaded machine may take longer than it waits.
TEST_P(WatchdogTest, TheLowestThatKnowsOfALossActsForAllAndNoneThatIsStuck) {
  std::atomic<int> elected = 0;
  WatchClock clock;
  const absl::Status status = RunRanks(kRanks, [&](Communicator& job) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const auto watchdog,
                              Make(job, GetParam(), clock, Quick(milliseconds(0))));
    if (job.rank() == 3) watchdog->Leave();
    if (job.rank() == 0 && !Eventually([&elected] { return elected == 2; })) {
      return Fail("rank 0 was awaited");
    }
    if (job.rank() == 3) return job.Barrier();
    if (job.rank() == 2 && !Eventually([&clock] { return clock.Waits(1); })) {
      return Fail("rank 1 has not come");
    }
    const int acts = watchdog->Elect();
    ++elected;
    if (acts != 1) return Fail(absl::StrCat("rank ", job.rank(), " takes ", acts));
    return job.Barrier();
  });
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(Hosts, WatchdogTest, testing::Values(1, 2, 4), HostsName);

TEST(PeerLostTest, TheStatusCarriesWhatWasLost) {
  const absl::Status status = PeerLostError({3, 17, 2, Phase::kReducing}, "its process has ended");
  EXPECT_MESSAGE(status, absl::StatusCode::kUnavailable);
  const std::optional<PeerLost> lost = PeerLostOf(Annotate(status, "gradients"));
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->rank, 3);
  EXPECT_EQ(lost->step, 17);
  EXPECT_EQ(lost->bucket, 2);
  EXPECT_EQ(lost->phase, Phase::kReducing);
  EXPECT_FALSE(PeerLostOf(absl::UnavailableError("other")).has_value());
}

}  // namespace
}  // namespace millrace::collectives
