#include "tests/collectives/chaos.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/peer_lost.h"
#include "gmock/gmock.h"
#include "tests/collectives/test_buffer.h"

namespace millrace::collectives {

using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string Name(Fault fault) {
  constexpr const char* kNames[] = {"slow",   "stopped", "lost",    "leaves",
                                    "throws", "aborts",  "diverges"};
  return kNames[static_cast<int>(fault)];
}

std::string Turn::ToString() const {
  return absl::StrCat("rank ", rank, " of ", size, " ", Name(fault), " at step ", step,
                      agreed ? " (agreed)" : "");
}

std::vector<Turn> DrawTurns(const std::vector<int>& sizes, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&random](int end) {
    return std::uniform_int_distribution<int>(0, end - 1)(random);
  };
  std::vector<Turn> turns;
  for (const int size : sizes) {
    for (const Fault fault : kFaults) {
      turns.push_back({fault, size, below(size), below(3), below(2) == 1});
      // Agreed calls that differ are the callers' promise broken.
      if (fault == Fault::kDiverges) turns.back().agreed = false;
    }
  }
  std::shuffle(turns.begin(), turns.end(), random);
  return turns;
}

void RunOwnThreadRanks(int size, const RankWithOwn& body) {
  auto communicators = MakeThreadGroup(size);
  std::vector<std::jthread> ranks;
  for (auto& communicator : communicators) {
    ranks.emplace_back([&body, own = std::move(communicator)]() mutable {
      try {
        body(std::move(own));
      } catch (const Unwound&) {
      }
    });
  }
}

std::vector<ChaosJob::Seen> ChaosJob::Run(const RunOwnRanks& run) {
  {
    MutexLock lock(mu_);
    waiting_.assign(turn_.size, false);
  }
  run(turn_.size, [this](std::unique_ptr<Communicator> own) { Rank(std::move(own)); });
  return seen_;
}

absl::Status ChaosJob::Step(Communicator& comm, bool diverges) const {
  Buffer data(DType::kF32, diverges ? 101 : 100, comm.rank());
  Request request{Collective::kAllReduce, data.view(), data.view()};
  request.agreed = turn_.agreed;
  MILLRACE_RETURN_IF_ERROR(comm.Run(request));
  return data.Get(7) == Expected(ReduceOp::kSum, comm.size(), 7) ? absl::OkStatus() : Fail("sum");
}

WaitLimits ChaosJob::LimitsOf(int rank) {
  WaitLimits limits;
  limits.watch = [this, rank] {
    MutexLock lock(mu_);
    waiting_[rank] = true;
    changed_.NotifyAll();
    return lost_ ? PeerLostError({turn_.rank, turn_.step}, "chaos") : absl::OkStatus();
  };
  if (turn_.fault == Fault::kStopped) limits.timeout = std::chrono::milliseconds(100);
  return limits;
}

void ChaosJob::AwaitWaiting() {
  MutexLock lock(mu_);
  waiting_[turn_.rank] = true;
  while (std::count(waiting_.begin(), waiting_.end(), false) > 0) changed_.Wait(mu_);
}

void ChaosJob::AwaitEnded() {
  MutexLock lock(mu_);
  while (ended_ < turn_.size - 1) changed_.Wait(mu_);
}

void ChaosJob::SayLost() {
  MutexLock lock(mu_);
  lost_ = true;
}

bool ChaosJob::GoWrong(std::unique_ptr<Communicator>& comm) {
  if (before_fault) before_fault();
  // The time of those that are stopped for runs from the others' first wait.
  if (turn_.fault != Fault::kStopped && turn_.fault != Fault::kDiverges) AwaitWaiting();
  switch (turn_.fault) {
    case Fault::kSlow:
    case Fault::kDiverges:
      return true;
    case Fault::kLost:
      SayLost();
      AwaitEnded();
      return true;
    case Fault::kStopped:
      AwaitEnded();
      return true;
    case Fault::kAborts:
      comm->Abort(absl::DataLossError("shard 7 is corrupt"));
      return true;
    case Fault::kLeaves:
      comm.reset();
      if (!notices_) SayLost();
      return false;
    case Fault::kThrows:
      if (!notices_) SayLost();
      throw Unwound();
  }
  return true;
}

void ChaosJob::Rank(std::unique_ptr<Communicator> own) {
  std::unique_ptr<Communicator> comm = std::move(own);
  const bool culprit = comm->rank() == turn_.rank;
  Seen& seen = seen_[comm->rank()];
  for (int step = 0; step < kSteps && seen.outcome.ok(); ++step) {
    const bool now = step == turn_.step;
    const bool limited = !culprit || turn_.fault == Fault::kLost;  // a verdict is every rank's
    if (now && limited) comm->set_limits(LimitsOf(comm->rank()));
    if (now && culprit && !GoWrong(comm)) return;
    seen.outcome = Step(*comm, now && culprit && turn_.fault == Fault::kDiverges);
    if (now) comm->set_limits({});
  }
  {
    MutexLock lock(mu_);
    if (!culprit) ++ended_;
    changed_.NotifyAll();
  }
  seen.later = Step(*comm, false);
}

namespace {

// A rank over a network has it typed; between threads it is a text.
bool NamesWhoLeft(const absl::Status& outcome, int rank) {
  const std::optional<PeerLost> lost = PeerLostOf(outcome);
  if (lost.has_value()) return lost->rank == rank;
  const std::string name = absl::StrCat("rank ", rank, " has left the group");
  return ToStd(outcome.message()).ends_with(name);
}

std::string ReasonOf(const Turn& turn) {
  return absl::StrCat("aborted by rank ", turn.rank, ": DATA_LOSS: shard 7 is corrupt");
}

// Of a fault that only those meet who wait for the rank that goes wrong. `mute`: see
// ExpectOutcomes.
void ExpectEnded(const Turn& turn, const absl::Status& outcome, bool mute) {
  const std::string text(ToStd(outcome.message()));
  if (mute && absl::IsUnavailable(outcome)) return;
  switch (turn.fault) {
    case Fault::kStopped:
      EXPECT_TRUE(absl::IsDeadlineExceeded(outcome)) << outcome;
      if (mute) break;
      // Ranks that a loaded machine has kept from coming are named, too.
      EXPECT_THAT(text, ContainsRegex(absl::StrCat("ranks? ([0-9]+, )*", turn.rank,
                                                   "(, [0-9]+)* did not come$")));
      break;
    case Fault::kAborts:
      EXPECT_TRUE(absl::IsCancelled(outcome)) << outcome;
      EXPECT_THAT(text, EndsWith(ReasonOf(turn)));
      break;
    default:
      EXPECT_TRUE(absl::IsUnavailable(outcome)) << outcome;
      EXPECT_TRUE(NamesWhoLeft(outcome, turn.rank)) << outcome;
      break;
  }
}

// A group that has failed fails for the same reason from then on.
void ExpectLater(const Turn& turn, const ChaosJob::Seen& seen) {
  const bool harmless = turn.fault == Fault::kSlow || turn.fault == Fault::kDiverges;
  EXPECT_EQ(seen.later.code(), harmless ? absl::StatusCode::kOk : seen.outcome.code())
      << seen.later;
  if (turn.fault != Fault::kLost) return;
  const std::optional<PeerLost> lost = PeerLostOf(seen.later);
  ASSERT_TRUE(lost.has_value()) << seen.later;
  EXPECT_EQ(lost->rank, turn.rank);
}

void ExpectOutcome(const Turn& turn, const ChaosJob::Seen& seen, bool mute) {
  switch (turn.fault) {
    case Fault::kSlow:
      EXPECT_TRUE(seen.outcome.ok()) << seen.outcome;
      break;
    case Fault::kLost: {
      const std::optional<PeerLost> lost = PeerLostOf(seen.outcome);
      EXPECT_TRUE(absl::IsUnavailable(seen.outcome)) << seen.outcome;
      ASSERT_TRUE(lost.has_value()) << seen.outcome;
      EXPECT_EQ(lost->rank, turn.rank);
      EXPECT_EQ(lost->step, turn.step);
      break;
    }
    case Fault::kDiverges:
      EXPECT_TRUE(absl::IsInvalidArgument(seen.outcome)) << seen.outcome;
      EXPECT_THAT(std::string(ToStd(seen.outcome.message())), HasSubstr("101 x float32"));
      break;
    default:
      ExpectEnded(turn, seen.outcome, mute);
      break;
  }
  ExpectLater(turn, seen);
}

}  // namespace

void ExpectOutcomes(const Turn& turn, const std::vector<ChaosJob::Seen>& seen, bool notices) {
  for (int rank = 0; rank < turn.size; ++rank) {
    SCOPED_TRACE(absl::StrCat(turn.ToString(), ": rank ", rank));
    if (rank != turn.rank) ExpectOutcome(turn, seen[rank], /*mute=*/!notices && turn.agreed);
  }
  // Who comes back, or goes on after its own abort, hears of it.
  const absl::Status& own = seen[turn.rank].outcome;
  const bool returns = turn.fault == Fault::kStopped || turn.fault == Fault::kLost;
  EXPECT_TRUE(!returns || !own.ok()) << turn.ToString();
  if (turn.fault != Fault::kAborts) return;
  EXPECT_TRUE(absl::IsCancelled(own)) << turn.ToString() << ": " << own;
  EXPECT_THAT(std::string(ToStd(own.message())), EndsWith(ReasonOf(turn)));
}

void LeaveInAnyOrder(const RunOwnRanks& run, int size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<bool> whole_first(size);
  for (int rank = 0; rank < size; ++rank) whole_first[rank] = random() % 2 == 0;
  Mutex mu;
  CondVar changed;
  int met = 0;   // ranks that are past the barrier they all take part in; guarded by mu
  int gone = 0;  // guarded by mu
  absl::Status last;
  run(size, [&](std::unique_ptr<Communicator> own) {
    std::unique_ptr<Communicator> comm = std::move(own);
    const int rank = comm->rank();
    absl::StatusOr<std::unique_ptr<Communicator>> part = comm->Split(rank % 2, 0);
    ASSERT_TRUE(part.ok()) << part.status();
    Buffer data(DType::kF32, 9, rank);
    const auto begun = comm->Start({Collective::kAllReduce, data.view(), data.view()});
    EXPECT_TRUE(begun->Wait().ok());
    const absl::Status barrier = comm->Barrier();
    EXPECT_TRUE(barrier.ok()) << "rank " << rank << ": " << barrier;
    {
      MutexLock lock(mu);
      ++met;
      changed.NotifyAll();
      // A call that fails ends the group, also for a rank that is still in the barrier before it.
      while (rank == order.back() && met < size) changed.Wait(mu);
    }
    if (rank == order.back()) {
      last = comm->Barrier();  // nobody else comes any more
    } else {
      MutexLock lock(mu);
      while (order[gone] != rank) changed.Wait(mu);
    }
    (whole_first[rank] ? comm : *part).reset();
    (whole_first[rank] ? *part : comm).reset();
    if (rank == order.back()) return;
    MutexLock lock(mu);
    ++gone;
    changed.NotifyAll();
  });
  EXPECT_EQ(absl::IsUnavailable(last), size > 1) << last;
}

}  // namespace millrace::collectives
