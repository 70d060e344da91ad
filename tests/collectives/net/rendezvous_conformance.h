#ifndef MILLRACE_TESTS_COLLECTIVES_NET_RENDEZVOUS_CONFORMANCE_H_
#define MILLRACE_TESTS_COLLECTIVES_NET_RENDEZVOUS_CONFORMANCE_H_

// What both ways to meet must do. Ranks are processes, for they crash, come late and come twice.

#include <poll.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "collectives/net/rendezvous.h"
#include "gmock/gmock.h"
#include "tests/collectives/processes.h"
#include "tests/messages.h"
#include "tests/temp_folder.h"

namespace millrace::collectives {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

inline constexpr std::chrono::seconds kLong{60};  // a guard against hangs
// For a rank that waits for what is not there: it is not there later either.
inline constexpr std::chrono::milliseconds kShort{100};

// For a rank 0 that has met all who come when it fails.
inline RendezvousWaits NobodyComesLater() { return {.refusal = std::chrono::milliseconds(0)}; }

enum class Way { kServer, kFolder };

inline std::string Said(const absl::StatusOr<std::vector<std::string>>& met) {
  return met.ok() ? absl::StrJoin(*met, " ") : met.status().ToString();
}

// The error in "CODE: text", which is what a process says of one; without a code, the whole text.
inline messages::Message ErrorIn(const std::string& said) {
  for (int i = 1; i <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    const std::string prefix = absl::StatusCodeToString(code) + ": ";
    if (said.starts_with(prefix)) return {code, said.substr(prefix.size())};
  }
  return {std::nullopt, said};
}

// Blocks until the process has ended; false: it has not within a minute.
inline bool Ends(const Process& process) {
  pollfd end = {process.fd(), POLLIN, 0};
  return ::poll(&end, 1, PollMs(After(kLong))) > 0;
}

// Blocks until one of two processes has ended.
inline Process& FirstToEnd(Process& a, Process& b) {
  pollfd ends[] = {{a.fd(), POLLIN, 0}, {b.fd(), POLLIN, 0}};
  EXPECT_GT(::poll(ends, 2, PollMs(After(kLong))), 0);
  return ends[0].revents != 0 ? a : b;
}

// A number, 0 at first, that this process shares with those that it forks.
class SharedNumber {
 public:
  SharedNumber()
      : memory_(::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        value_(::new(memory_) std::atomic<int>(0)) {}
  ~SharedNumber() { ::munmap(memory_, sizeof(std::atomic<int>)); }
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;

  std::atomic<int>& operator*() const { return *value_; }

 private:
  void* const memory_;
  std::atomic<int>* const value_;
};

class Rendezvous : public testing::TestWithParam<Way> {
 protected:
  Rendezvous()
      : address_(GetParam() == Way::kServer ? absl::StrCat("tcp:127.0.0.1:", FreePort())
                                            : absl::StrCat("file:", folder_.path(), "/meet")) {}

  RendezvousOptions Options(int rank, int size, std::chrono::nanoseconds timeout = kLong) const {
    RendezvousOptions options;
    options.address = address_;
    options.rank = rank;
    options.size = size;
    options.job_id = "this job";
    options.timeout = timeout;
    return options;
  }
  // A process of one rank, which gives "r<rank>".
  static std::unique_ptr<Process> Start(const RendezvousOptions& options,
                                        const RendezvousWaits& waits = {}) {
    return std::make_unique<Process>([options, waits] {
      return Said(RunRendezvousWith(options, absl::StrCat("r", options.rank), waits));
    });
  }
  // The time of processes that share these waits is over once `num_ranks` of them have met.
  RendezvousWaits OverWhenMet(int num_ranks) const {
    const int num_asked = InFolder() ? num_ranks : 1;
    RendezvousWaits waits = NobodyComesLater();
    waits.is_over = [this, num_ranks, num_asked, met = false](int num_here) mutable {
      if (num_here == num_ranks && !std::exchange(met, true)) ++*num_met_;
      return (*num_met_).load() == num_asked;
    };
    return waits;
  }
  std::string File(int rank) const { return absl::StrCat(folder_.path(), "/meet/rank-", rank); }
  void AwaitFile(int rank) const {
    const Deadline deadline = After(kLong);
    while (!std::filesystem::exists(File(rank)) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(std::filesystem::exists(File(rank)));
  }
  static bool InFolder() { return GetParam() == Way::kFolder; }
  // The key of a message that is another by each way.
  static std::string Key() { return InFolder() ? "folder" : "server"; }

  TempFolder folder_;
  const std::string address_;
  const SharedNumber num_met_;  // processes that have met all who come
};

TEST_P(Rendezvous, EveryRankLearnsWhatAllGave) {
  for (int size = 2; size <= 5; ++size) {
    std::vector<std::unique_ptr<Process>> ranks;
    for (int rank = size - 1; rank >= 0; --rank) ranks.push_back(Start(Options(rank, size)));
    std::vector<std::string> expected;
    for (int rank = 0; rank < size; ++rank) expected.push_back(absl::StrCat("r", rank));
    for (const auto& rank : ranks) EXPECT_EQ(rank->Await(), absl::StrJoin(expected, " "));
    if (InFolder()) {
      EXPECT_TRUE(std::filesystem::is_empty(folder_ / "meet"));
    }
  }
}

TEST_P(Rendezvous, AGroupOfOneMeetsNobody) {
  EXPECT_EQ(Said(RunRendezvous(Options(0, 1), "alone")), "alone");
}

TEST_P(Rendezvous, DataMayBeLong) {
  const std::string data(60000, 'x');
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<Process>([&, rank] {
      const auto met = RunRendezvous(Options(rank, 3), data);
      return met.ok() && *met == std::vector<std::string>(3, data) ? "same" : Said(met);
    }));
  }
  for (const auto& rank : ranks) EXPECT_EQ(rank->Await(), "same");
}

TEST_P(Rendezvous, WhoNeverComesIsNamedOnEveryRank) {
  const auto first = Start(Options(0, 5), OverWhenMet(2));
  const auto second = Start(Options(2, 5), OverWhenMet(2));
  for (const std::string& said : {first->Await(), second->Await()}) {
    EXPECT_MESSAGE(ErrorIn(said), absl::StatusCode::kDeadlineExceeded, Key());
  }
}

TEST_P(Rendezvous, WithoutRankZeroTheOthersNameIt) {
  EXPECT_THAT(Start(Options(1, 2, kShort))->Await(),
              AllOf(StartsWith("DEADLINE_EXCEEDED"), HasSubstr("rank 0 (")));
}

// In a folder, unless it has met another before: so it is gone before others come.
TEST_P(Rendezvous, ARankThatCrashedMayComeAgain) {
  std::unique_ptr<Process> zero;
  if (!InFolder()) zero = Start(Options(0, 3));
  Start(Options(1, 3))->Kill();
  if (InFolder()) zero = Start(Options(0, 3));
  const auto one = Start(Options(1, 3));
  const auto two = Start(Options(2, 3));
  EXPECT_EQ(zero->Await(), "r0 r1 r2");
  EXPECT_EQ(one->Await(), "r0 r1 r2");
  EXPECT_EQ(two->Await(), "r0 r1 r2");
}

TEST_P(Rendezvous, RanksOfAnotherJobAreNotTaken) {
  const auto zero = Start(Options(0, 2));
  if (InFolder()) AwaitFile(0);
  RendezvousOptions other = Options(1, 2, InFolder() ? kShort : kLong);
  other.job_id = "another job";
  EXPECT_MESSAGE(
      ErrorIn(Start(other)->Await()),
      InFolder() ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kFailedPrecondition,
      Key());
  const auto one = Start(Options(1, 2));
  EXPECT_EQ(zero->Await(), "r0 r1");
  EXPECT_EQ(one->Await(), "r0 r1");
}

TEST_P(Rendezvous, RanksOfAnotherSizeAreNotTaken) {
  if (InFolder()) {
    const auto zero = Start(Options(0, 2));
    AwaitFile(0);
    EXPECT_MESSAGE(ErrorIn(Start(Options(1, 3, kShort))->Await()),
                   absl::StatusCode::kDeadlineExceeded, "of-three");
    zero->Kill();
    const auto one = Start(Options(1, 3));
    AwaitFile(1);
    EXPECT_MESSAGE(ErrorIn(Start(Options(0, 2, kShort))->Await()),
                   absl::StatusCode::kDeadlineExceeded, "of-two");
    return;
  }
  const auto zero = Start(Options(0, 2), NobodyComesLater());
  const auto one = Start(Options(1, 3));
  for (Process* const rank : {zero.get(), one.get()}) {
    EXPECT_MESSAGE(ErrorIn(rank->Await()), absl::StatusCode::kFailedPrecondition, "server");
  }
}

TEST_P(Rendezvous, TwoProcessesOfOneRankAreAnError) {
  const auto zero = Start(Options(0, 3), NobodyComesLater());
  const auto once = Start(Options(1, 3));
  const auto twice = Start(Options(1, 3));
  Process& first = FirstToEnd(*once, *twice);
  EXPECT_MESSAGE(ErrorIn(first.Await()), absl::StatusCode::kAlreadyExists, Key());
  for (Process* const rank : {zero.get(), once.get(), twice.get()}) {
    if (rank == &first) continue;
    if (InFolder()) rank->Kill();  // it may wait for rank 2
    const std::string said = rank->Await();
    EXPECT_THAT(said, testing::Not(HasSubstr("r0 r1")));
    if (InFolder()) continue;
    EXPECT_MESSAGE(ErrorIn(said), absl::StatusCode::kAlreadyExists, Key());
  }
}

inline std::function<absl::Status()> EndsAtThirdLook() {
  return [looks = 0]() mutable {
    return ++looks < 3 ? absl::OkStatus() : absl::CancelledError("stop");
  };
}

TEST_P(Rendezvous, AWatchEndsTheWaitOfARankAlone) {
  for (const int rank : {0, 1}) {
    RendezvousOptions options = Options(rank, 2);
    options.watch = EndsAtThirdLook();
    EXPECT_EQ(Start(options)->Await(), "CANCELLED: stop");
  }
}

TEST_P(Rendezvous, AWatchEndsTheWaitOfARankThatHasMetOthers) {
  const auto rank_0 = Start(Options(0, 3));
  RendezvousOptions options = Options(1, 3);
  options.watch = EndsAtThirdLook();
  EXPECT_THAT(Start(options)->Await(), AllOf(StartsWith("CANCELLED: "), testing::EndsWith("stop")));
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_NET_RENDEZVOUS_CONFORMANCE_H_
