#include "collectives/watch/stall_watch.h"

#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace millrace::collectives {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kReport{3000};
constexpr milliseconds kAbort{60'000};

// What rank 0 of three sees, second by second.
class StallWatchTest : public testing::Test {
 protected:
  StallWatchTest() : memory_(ProgressBoard::SizeBytes(3) + 128), board_(Aligned(), 3) {
    for (int rank = 0; rank < 3; ++rank) Show(rank, 1, 0, Phase::kBackward);
  }

  void Show(int rank, int64_t step, int bucket, Phase phase) {
    now_of_[rank] = {step, bucket, phase, Presence::kHere, now_of_[rank].beat};
  }
  void Stop(int rank) { stopped_[rank] = true; }

  // `seconds` pass, with a look in each; all ranks but those that stopped give signs of life.
  std::vector<StallWatch::Finding> Pass(int seconds) {
    std::vector<StallWatch::Finding> found;
    for (int i = 0; i < seconds; ++i) {
      now_ += std::chrono::seconds(1);
      for (int rank = 0; rank < 3; ++rank) {
        if (!stopped_[rank]) ++now_of_[rank].beat;
        board_.page(rank).Write(now_of_[rank]);
      }
      for (const auto& finding : watch_->Look(board_, now_)) found.push_back(finding);
    }
    return found;
  }

 private:
  std::byte* Aligned() {
    const auto at = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (128 - at % 128) % 128;
  }

  std::vector<std::byte> memory_;

 protected:
  ProgressBoard board_;
  Sighting now_of_[3];
  bool stopped_[3] = {};
  std::optional<StallWatch> watch_{std::in_place, 0, 3, kReport, kAbort};
  StallWatch::Clock::time_point now_;
};

TEST_F(StallWatchTest, ALongBackwardOfAllIsNoStall) { EXPECT_TRUE(Pass(300).empty()); }

TEST_F(StallWatchTest, WhoIsWaitedForIsNamedOnceWithItsPlace) {
  Pass(2);
  Show(0, 1, 2, Phase::kWaiting);
  Show(1, 1, 2, Phase::kWaiting);
  const auto found = Pass(20);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].stall.where.rank, 2);
  EXPECT_EQ(found[0].stall.where.bucket, 0);
  EXPECT_EQ(found[0].stall.where.phase, Phase::kBackward);
  EXPECT_EQ(found[0].stall.since, kReport);
  EXPECT_FALSE(found[0].stall.silent);
  EXPECT_FALSE(found[0].give_up);
  EXPECT_EQ(found[0].stall.ToString(),
            "rank 2 has not come on for 3.0 s: backward, step 1, bucket 0");
}

// Of those that find it: who hangs itself waits for nobody, and who is stopped says nothing.
TEST_F(StallWatchTest, TheLowestThatFindsAStallSpeaks) {
  struct Case {
    Phase of_1;
    bool stops_1;
    int speaker;
  };
  for (const auto& [of_1, stops_1, speaker] :
       {Case{Phase::kWaiting, false, 1}, Case{Phase::kReading, false, 2},
        Case{Phase::kWaiting, true, 2}}) {
    watch_.emplace(2, 3, kReport, kAbort);
    stopped_[1] = stops_1;
    Show(0, 1, -1, Phase::kReading);
    Show(1, 1, 2, of_1);
    Show(2, 1, 2, Phase::kWaiting);
    const auto found = Pass(5);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].stall.where.rank, 0);
    EXPECT_EQ(found[0].stall.speaker, speaker);
  }
}

TEST_F(StallWatchTest, WhoeverRunsMayTellOfAStoppedProcess) {
  watch_.emplace(2, 3, kReport, kAbort);
  Pass(1);
  Stop(0);
  const auto found = Pass(5);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].stall.where.rank, 0);
  EXPECT_EQ(found[0].stall.speaker, 1);
}

TEST_F(StallWatchTest, WhoComesOnStartsAnew) {
  Show(0, 1, 2, Phase::kWaiting);
  Show(1, 1, 2, Phase::kWaiting);
  EXPECT_EQ(Pass(5).size(), 1);
  Show(2, 1, 0, Phase::kReducing);
  EXPECT_TRUE(Pass(2).empty());
  EXPECT_EQ(Pass(5).size(), 1);
}

TEST_F(StallWatchTest, WhoeverWaitsForTheSameIsNotNamed) {
  for (int rank = 0; rank < 3; ++rank) Show(rank, 1, 2, Phase::kWaiting);
  EXPECT_TRUE(Pass(300).empty());
}

// On a host that has more ranks than another: one has no share and waits for the end of the step
// already, while its ranks exchange the first bucket with a rank that hangs.
TEST_F(StallWatchTest, WhoWaitsElsewhereIsNotNamedForARankThatHangs) {
  Show(0, 1, 0, Phase::kExchanging);
  Show(1, 1, 2, Phase::kWaiting);
  const auto found = Pass(100);
  ASSERT_EQ(found.size(), 2);
  for (const auto& finding : found) EXPECT_EQ(finding.stall.where.rank, 2);
  EXPECT_FALSE(found[0].give_up);
  EXPECT_EQ(found[1].stall.since, kAbort);
  EXPECT_TRUE(found[1].give_up);
}

TEST_F(StallWatchTest, WhoWaitsElsewhereIsNotNamedForAStoppedProcessThatWaits) {
  Show(0, 1, 0, Phase::kExchanging);
  Show(1, 1, 2, Phase::kWaiting);
  Show(2, 1, 0, Phase::kExchanging);
  Pass(1);
  Stop(2);
  const auto found = Pass(100);
  ASSERT_EQ(found.size(), 2);
  for (const auto& finding : found) {
    EXPECT_EQ(finding.stall.where.rank, 2);
    EXPECT_TRUE(finding.stall.silent);
  }
  EXPECT_TRUE(found[1].give_up);
}

TEST_F(StallWatchTest, AWaitElsewhereCountsSinceNobodyHoldsItUp) {
  watch_.emplace(0, 3, kReport, milliseconds(0));
  Show(0, 1, 0, Phase::kExchanging);
  Show(1, 1, 2, Phase::kWaiting);
  EXPECT_EQ(Pass(100).size(), 1);
  Show(2, 1, 0, Phase::kExchanging);  // in time, if late
  EXPECT_TRUE(Pass(2).empty());
  const auto found = Pass(1);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].stall.where.rank, 1);
  EXPECT_EQ(found[0].stall.since, kReport);
}

TEST_F(StallWatchTest, WhereAllWaitForDifferentThingsWhoIsAwaitedIsGivenUp) {
  Show(0, 1, 0, Phase::kWaiting);
  Show(1, 1, 2, Phase::kWaiting);
  Show(2, 1, 0, Phase::kWaiting);
  const auto found = Pass(100);
  ASSERT_EQ(found.size(), 2);
  for (const auto& finding : found) EXPECT_EQ(finding.stall.where.rank, 1);
  EXPECT_TRUE(found[1].give_up);
}

TEST_F(StallWatchTest, AStoppedProcessIsNamedThoughNobodyWaits) {
  Show(1, 1, -1, Phase::kBackward);  // before its first bucket
  Pass(1);
  Stop(1);
  const auto found = Pass(10);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].stall.where.rank, 1);
  EXPECT_TRUE(found[0].stall.silent);
  EXPECT_EQ(found[0].stall.ToString(),
            "rank 1 has not come on for 3.0 s: backward, step 1 (its process does not run)");
}

TEST_F(StallWatchTest, AfterTheLimitARankIsGivenUpOnce) {
  Pass(1);
  Stop(1);
  std::vector<StallWatch::Finding> given_up;
  for (const auto& finding : Pass(200)) {
    if (finding.give_up) given_up.push_back(finding);
  }
  ASSERT_EQ(given_up.size(), 1);
  EXPECT_EQ(given_up[0].stall.where.rank, 1);
  EXPECT_EQ(given_up[0].stall.since, kAbort);
}

// docs/distributed.md: within five seconds and after a minute, whether it stops or hangs.
TEST_F(StallWatchTest, ByDefaultARankIsNamedAfterThreeSecondsAndGivenUpAfterAMinute) {
  const WatchdogOptions defaults;
  for (const bool stops : {true, false}) {
    watch_.emplace(0, 3, defaults.stall_report, defaults.stall_abort);
    for (int rank : {0, 1}) Show(rank, 1, 2, Phase::kWaiting);
    Pass(1);
    if (stops) Stop(2);
    const auto found = Pass(100);
    ASSERT_EQ(found.size(), 2) << stops;
    EXPECT_EQ(found[0].stall.where.rank, 2);
    EXPECT_EQ(found[0].stall.silent, stops);
    EXPECT_EQ(found[0].stall.since, std::chrono::seconds(3));
    EXPECT_FALSE(found[0].give_up);
    EXPECT_EQ(found[1].stall.since, std::chrono::seconds(60));
    EXPECT_TRUE(found[1].give_up);
    stopped_[2] = false;
  }
}

// It indexes its data, say, or loads a checkpoint, or writes the timeline.
TEST_F(StallWatchTest, OutsideOfStepsWhoRunsIsNamedButNotGivenUp) {
  for (const Phase phase : {Phase::kStart, Phase::kUpdating}) {
    SCOPED_TRACE(Name(phase));
    for (int rank : {0, 1}) Show(rank, -1, -1, Phase::kWaiting);
    Show(2, -1, -1, phase);
    watch_.emplace(0, 3, kReport, kAbort);
    const auto found = Pass(300);
    ASSERT_EQ(found.size(), 1);
    EXPECT_EQ(found[0].stall.where.rank, 2);
    EXPECT_EQ(found[0].stall.since, kReport);
    EXPECT_FALSE(found[0].stall.silent);
    EXPECT_FALSE(found[0].give_up);
  }
  EXPECT_EQ(Stall({.where = {.rank = 2}, .since = kReport}).ToString(),
            "rank 2 has not come on for 3.0 s: start");
}

TEST_F(StallWatchTest, OutsideOfStepsWhoDoesNotRunIsGivenUp) {
  for (int rank : {0, 1}) Show(rank, -1, -1, Phase::kWaiting);
  Show(2, -1, -1, Phase::kStart);
  EXPECT_EQ(Pass(100).size(), 1);
  Stop(2);
  const auto found = Pass(100);
  ASSERT_EQ(found.size(), 1);
  EXPECT_TRUE(found[0].give_up);
  EXPECT_TRUE(found[0].stall.silent);
}

TEST_F(StallWatchTest, WhoOpensLongerThanTheFirstStepWaitsIsGivenUp) {
  for (int rank : {0, 1}) Show(rank, 0, -1, Phase::kWaiting);
  Show(2, -1, -1, Phase::kStart);
  const auto found = Pass(100);
  ASSERT_EQ(found.size(), 2);
  EXPECT_TRUE(found[1].give_up);
}

TEST_F(StallWatchTest, WhoHasLeftIsNotMissed) {
  Pass(1);
  now_of_[1].presence = Presence::kLeft;
  Stop(1);
  EXPECT_TRUE(Pass(300).empty());
}

TEST_F(StallWatchTest, WhoHasEndedKeepsNobodyWaiting) {
  Show(0, 1, -1, Phase::kWaiting);
  Show(1, -1, -1, Phase::kEnded);
  Show(2, 1, -1, Phase::kWaiting);
  EXPECT_TRUE(Pass(300).empty());
}

TEST_F(StallWatchTest, WhoWasAwayItselfBlamesNobody) {
  Show(0, 1, 2, Phase::kWaiting);
  Show(1, 1, 2, Phase::kWaiting);
  Pass(1);
  now_ += std::chrono::minutes(10);  // all ranks were stopped, this one looks first
  EXPECT_TRUE(watch_->Look(board_, now_).empty());
  EXPECT_TRUE(Pass(1).empty());
  EXPECT_EQ(Pass(5).size(), 1);  // rank 2 is still not there
}

// Short limits, and a loaded machine that lets no rank run for longer.
TEST_F(StallWatchTest, APauseOfAllRanksIsNobodysStall) {
  watch_.emplace(0, 3, milliseconds(300), milliseconds(900));
  Show(0, 1, 2, Phase::kWaiting);
  Show(1, 1, 2, Phase::kWaiting);
  EXPECT_TRUE(Pass(1).empty());
  now_ += milliseconds(1400);
  EXPECT_TRUE(watch_->Look(board_, now_).empty());
  EXPECT_TRUE(Pass(1).empty());
  const auto found = Pass(1);  // rank 2 is awaited in the third look too
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].stall.where.rank, 2);
  EXPECT_FALSE(found[0].stall.silent);
}

TEST_F(StallWatchTest, ALimitBelowTheReportsIsKept) {
  for (const bool stops : {true, false}) {
    watch_.emplace(0, 3, kAbort, kReport);
    for (int rank : {0, 1}) Show(rank, 1, 2, Phase::kWaiting);
    Pass(1);
    if (stops) Stop(2);
    const auto found = Pass(100);
    ASSERT_EQ(found.size(), 1) << stops;
    EXPECT_EQ(found[0].stall.where.rank, 2);
    EXPECT_EQ(found[0].stall.silent, stops);
    EXPECT_EQ(found[0].stall.since, kReport);
    EXPECT_TRUE(found[0].give_up);
    stopped_[2] = false;
  }
}

// The share of the limit after which a silent rank excuses the others is the lesser one's.
TEST_F(StallWatchTest, ALimitBelowTheReportsGivesUpNobodyForAnother) {
  watch_.emplace(0, 3, kAbort, kReport);
  Show(0, 1, 0, Phase::kExchanging);
  Show(1, 1, 2, Phase::kWaiting);
  Show(2, 1, 0, Phase::kExchanging);
  Pass(1);
  Stop(2);
  const auto found = Pass(5);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].stall.where.rank, 2);
  EXPECT_TRUE(found[0].give_up);
}

TEST_F(StallWatchTest, OutsideOfStepsALimitBelowTheReportsNamesNobodyEarly) {
  for (int rank : {0, 1}) Show(rank, -1, -1, Phase::kWaiting);
  Show(2, -1, -1, Phase::kStart);
  watch_.emplace(0, 3, kAbort, kReport);
  EXPECT_TRUE(Pass(60).empty());
  const auto found = Pass(1);
  ASSERT_EQ(found.size(), 1);
  EXPECT_FALSE(found[0].give_up);
}

TEST_F(StallWatchTest, WithoutALimitNobodyIsGivenUp) {
  watch_.emplace(0, 3, kReport, milliseconds(0));
  Pass(1);
  Stop(1);
  for (const auto& finding : Pass(300)) EXPECT_FALSE(finding.give_up);
}

TEST(ProgressBoardTest, APageIsReadAsItWasWritten) {
  alignas(128) std::byte memory[1024] = {};
  ASSERT_LE(ProgressBoard::SizeBytes(2), sizeof(memory));
  ProgressBoard board(memory, 2);
  board.page(1).Write({17, 3, Phase::kExchanging, Presence::kHere, 9});
  const Sighting seen = ProgressBoard(memory, 2).page(1).Read();
  EXPECT_EQ(seen.step, 17);
  EXPECT_EQ(seen.bucket, 3);
  EXPECT_EQ(seen.phase, Phase::kExchanging);
  EXPECT_EQ(seen.beat, 9);
  EXPECT_EQ(board.page(0).Read().beat, 0);
}

TEST(ProgressBoardTest, TheFirstVerdictStands) {
  alignas(128) std::byte memory[1024] = {};
  ProgressBoard board(memory, 2);
  EXPECT_FALSE(board.verdict().has_value());
  board.Give({1, Cause::kSilent});
  board.Give({0, Cause::kEnded});
  ASSERT_TRUE(board.verdict().has_value());
  EXPECT_EQ(board.verdict()->rank, 1);
  EXPECT_EQ(board.verdict()->cause, Cause::kSilent);
}

// A writer that was killed within a write leaves an odd version behind.
TEST(ProgressBoardTest, APageWhoseWriterDiedCanBeRead) {
  alignas(128) std::byte memory[1024] = {};
  ProgressBoard board(memory, 1);
  board.page(0).Write({1, 2, Phase::kReducing, Presence::kHere, 5});
  ++*reinterpret_cast<uint32_t*>(&board.page(0));
  EXPECT_EQ(board.page(0).Read().step, 1);
}

// Its looks are further apart than that.
TEST_F(StallWatchTest, ATinyLimitStillFindsWhoIsSilent) {
  watch_.emplace(0, 3, milliseconds(2), milliseconds(0));
  Pass(2);
  Stop(1);
  const auto found = Pass(3);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].stall.where.rank, 1);
  EXPECT_TRUE(found[0].stall.silent);
}

}  // namespace
}  // namespace millrace::collectives
