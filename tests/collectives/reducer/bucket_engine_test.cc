// The last share of a step, which a peer may claim; and who of the caller and its thread reduces.
#include "collectives/reducer/bucket_engine.h"

#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "collectives/factory.h"
#include "collectives/progress.h"
#include "gtest/gtest.h"
#include "tests/collectives/reducer/reducer_steps.h"

namespace millrace::collectives {
namespace {

absl::Status Goes() { return absl::OkStatus(); }
bool HasNoOthers() { return false; }

// Nothing runs Follow in these tests but they themselves.
class BucketEngineTest : public testing::Test {
 protected:
  BucketEngineTest() : plan_(*MakeBucketPlan(SomeGradients(), SmallBuckets())) {}

  uint32_t buckets() const { return static_cast<uint32_t>(plan_.buckets.size()); }
  HostLinks Alone() const {
    HostLinks links;
    links.groups = GroupByIdentity({0});
    links.stripe = 0;
    links.ranks = {0};
    links.host = SharedHost::MakePrivate(plan_.total_bytes);
    return links;
  }
  // Of two hosts: no exchange is begun in these tests.
  HostLinks BetweenHosts() const {
    HostLinks links = Alone();
    links.groups = GroupByIdentity({1, 2});
    links.cross = MakeSingle();
    return links;
  }
  // What rank 1 of the host has told when it is about to sum the last share of `board`'s rank.
  void ClaimByRank1(RankBoard& board) const { board.claimed = uint64_t{1} << 32 | buckets(); }

  const BucketPlan plan_;
};

TEST_F(BucketEngineTest, TheCallerReducesWhatItsThreadHasNotComeTo) {
  HostLinks links = Alone();
  BucketEngine engine(plan_, links, SmallBuckets(), {std::chrono::seconds(1), Goes, HasNoOthers});
  ASSERT_TRUE(engine.Publish(buckets()).ok());
  const absl::Status status = engine.AwaitDone(0);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(HasReached(links.host->board(0).done, buckets()));
}

// Between hosts the thread waits again for each bucket, the caller once for all: it must not give
// up before its thread does.
TEST_F(BucketEngineTest, BetweenHostsTheCallerWaitsForAsLongAsItsThread) {
  HostLinks links = BetweenHosts();
  constexpr std::chrono::seconds kTimeout{1};
  Deadline now;
  const auto raise_late = [&] {
    now += kTimeout;
    if (now > Deadline() + 10 * kTimeout) Raise(links.host->board(0).done, buckets());
    return absl::OkStatus();
  };
  BucketEngine engine(plan_, links, SmallBuckets(),
                      {kTimeout, raise_late, [] { return true; }, [&now] { return now; }});
  ASSERT_TRUE(engine.Publish(buckets()).ok());
  const absl::Status status = engine.AwaitDone(0);
  EXPECT_TRUE(status.ok()) << status;
}

// Whom it waited for in vain, and in which bucket, its thread has said.
TEST_F(BucketEngineTest, BetweenHostsTheCallerSaysWhatItsThreadSays) {
  HostLinks links = BetweenHosts();
  const absl::Status failure = absl::DeadlineExceededError("gradient bucket 2: rank 1 is late");
  absl::Status said;
  const auto stopped = [&] { return said; };
  BucketEngine engine(plan_, links, SmallBuckets(),
                      {std::chrono::seconds(20), stopped, HasNoOthers});
  ASSERT_TRUE(engine.Publish(buckets()).ok());
  said = failure;
  EXPECT_EQ(engine.AwaitDone(0), failure);
}

// Who is killed then never raises the flag.
TEST_F(BucketEngineTest, TheThreadCanBeStoppedWhileAPeerHasTheLastShare) {
  HostLinks links = Alone();
  int asked = 0;
  const auto stopped = [&asked] {
    return ++asked > 3 ? absl::CancelledError("given up") : absl::OkStatus();
  };
  BucketEngine engine(plan_, links, SmallBuckets(),
                      {std::chrono::seconds(1), stopped, HasNoOthers});
  RankBoard& board = links.host->board(0);
  ClaimByRank1(board);
  ASSERT_TRUE(engine.Publish(buckets()).ok());
  const absl::Status status = engine.Follow();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(board.done.count.load(), buckets() - 1);
}

// Tells what is said when the flag may have let the caller go on, and who is awaited.
class SaidTooLate : public Progress {
 public:
  SaidTooLate(SharedHost& host, uint32_t buckets) : host_(host), buckets_(buckets) {}
  void Enter(int64_t, int, Phase phase) override {
    if (HasReached(host_.board(0).done, buckets_)) late = true;
    last = phase;
  }
  void Awaits(int64_t, int, int rank) override { Raise(host_.board(rank).done, buckets_); }
  absl::Status Health() const override { return absl::OkStatus(); }
  bool late = false;
  Phase last = Phase::kStart;

 private:
  SharedHost& host_;
  const uint32_t buckets_;
};

// What the thread said later would undo what the caller has said since.
TEST_F(BucketEngineTest, BetweenHostsTheThreadSaysNothingMoreOfAStepThatMayHaveEnded) {
  const absl::Status status = RunRanks(2, [this](Communicator& comm) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(SharedHostResult made, SharedHost::Make(comm, plan_.total_bytes));
    if (made.host == nullptr) return Fail(made.refused);
    Raise(made.host->board(comm.rank()).published, buckets());
    MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    if (comm.rank() == 1) return comm.Barrier();  // rank 0 raises its flag
    HostLinks links;
    links.groups = GroupByIdentity({1, 1, 2, 2});
    links.stripe = 0;
    links.ranks = {0, 1};
    links.cross = MakeSingle();
    links.host = std::move(made.host);
    SaidTooLate progress(*links.host, buckets());
    ReducerOptions options = SmallBuckets();
    options.progress = &progress;
    absl::Status stopped;
    BucketEngine engine(plan_, links, options,
                        {std::chrono::seconds(20), [&] { return stopped; }, HasNoOthers});
    MILLRACE_RETURN_IF_ERROR(engine.Follow());
    if (progress.last != Phase::kWaiting) return Fail("it does not say that it waits for rank 1");
    stopped = absl::CancelledError("in the next step");
    if (engine.Follow() != stopped) return Fail("it goes on");
    if (progress.late) return Fail("it says more");
    return comm.Barrier();
  });
  EXPECT_TRUE(status.ok()) << status;
}

class AwaitedRank : public Progress {
 public:
  void Enter(int64_t, int, Phase) override {}
  void Awaits(int64_t, int, int rank) override { awaited = rank; }
  absl::Status Health() const override { return absl::OkStatus(); }
  int awaited = -1;
};

TEST_F(BucketEngineTest, WhoHasClaimedAShareIsAwaitedForIt) {
  const absl::Status status = RunRanks(2, [this](Communicator& comm) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(SharedHostResult made, SharedHost::Make(comm, plan_.total_bytes));
    if (made.host == nullptr) return Fail(made.refused);
    if (comm.rank() == 1) {
      ClaimByRank1(made.host->board(0));
      Raise(made.host->board(1).published, buckets());
      Raise(made.host->board(1).done, buckets());
      MILLRACE_RETURN_IF_ERROR(comm.Barrier());
      return comm.Barrier();  // here still while rank 0 waits
    }
    MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    HostLinks links;
    links.groups = GroupByIdentity({0, 0});
    links.stripe = 0;
    links.ranks = {0, 1};
    links.host = std::move(made.host);
    AwaitedRank watch;
    ReducerOptions options = SmallBuckets();
    options.progress = &watch;
    BucketEngine engine(plan_, links, options, {std::chrono::milliseconds(50), Goes, HasNoOthers});
    MILLRACE_RETURN_IF_ERROR(engine.Publish(buckets()));
    const absl::Status outcome = engine.AwaitDone(0);
    const bool names = absl::IsDeadlineExceeded(outcome) &&
                       absl::StrContains(outcome.message(), "waiting for rank 1 of this host");
    if (!names || watch.awaited != 1) return Fail(outcome.ToString());
    return comm.Barrier();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Claims the last share of rank 1 for rank 2 when rank 1 is awaited for it.
class ClaimingRank2 : public AwaitedRank {
 public:
  ClaimingRank2(RankBoard& board, uint32_t buckets) : board_(board), buckets_(buckets) {}
  void Awaits(int64_t step, int bucket, int rank) override {
    AwaitedRank::Awaits(step, bucket, rank);
    if (rank == 1) board_.claimed = uint64_t{2} << 32 | buckets_;
  }

 private:
  RankBoard& board_;
  const uint32_t buckets_;
};

TEST_F(BucketEngineTest, WhoClaimsAShareWhileItIsAwaitedIsAwaitedFromThenOn) {
  const absl::Status status = RunRanks(3, [this](Communicator& comm) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(SharedHostResult made, SharedHost::Make(comm, plan_.total_bytes));
    if (made.host == nullptr) return Fail(made.refused);
    Raise(made.host->board(comm.rank()).published, buckets());
    if (comm.rank() == 2) Raise(made.host->board(2).done, buckets());
    MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    if (comm.rank() != 0) return comm.Barrier();  // here still while rank 0 waits
    HostLinks links;
    links.groups = GroupByIdentity({1, 1, 1});
    links.stripe = 0;
    links.ranks = {0, 1, 2};
    links.host = std::move(made.host);
    ClaimingRank2 watch(links.host->board(1), buckets());
    ReducerOptions options = SmallBuckets();
    options.progress = &watch;
    BucketEngine engine(plan_, links, options, {std::chrono::milliseconds(50), Goes, HasNoOthers});
    const absl::Status outcome = engine.AwaitDone(0);
    const bool names = absl::IsDeadlineExceeded(outcome) &&
                       absl::StrContains(outcome.message(), "waiting for rank 2 of this host");
    if (!names || watch.awaited != 2) return Fail(outcome.ToString());
    return comm.Barrier();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// A rank that has no share itself waits for all buckets of those that exchange them.
TEST_F(BucketEngineTest, EachBucketOfAPeerMayTakeTheTimeout) {
  ASSERT_GT(buckets(), 3);
  constexpr std::chrono::seconds kTimeout{3};
  const absl::Status status = RunRanks(2, [&](Communicator& comm) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(SharedHostResult made, SharedHost::Make(comm, plan_.total_bytes));
    if (made.host == nullptr) return Fail(made.refused);
    Raise(made.host->board(comm.rank()).published, buckets());
    MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    if (comm.rank() == 1) return comm.Barrier();  // here still while rank 0 waits
    HostLinks links;
    links.groups = GroupByIdentity({1, 1});
    links.stripe = 0;
    links.ranks = {0, 1};
    links.host = std::move(made.host);
    SharedFlag& done = links.host->board(1).done;
    Deadline now;
    const auto raise_late = [&] {
      now += kTimeout * 2 / 3;
      Raise(done, done.count.load() + 1);
      return absl::OkStatus();
    };
    BucketEngine engine(plan_, links, SmallBuckets(),
                        {kTimeout, raise_late, HasNoOthers, [&now] { return now; }});
    MILLRACE_RETURN_IF_ERROR(engine.AwaitDone(0));
    return comm.Barrier();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace millrace::collectives
