#ifndef MILLRACE_TESTS_COLLECTIVES_NET_RENDEZVOUS_CONFORMANCE_H_
#define MILLRACE_TESTS_COLLECTIVES_NET_RENDEZVOUS_CONFORMANCE_H_

// What both ways to meet must do. Ranks are processes, for they crash, come late and come twice.

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "collectives/net/rendezvous.h"
#include "gmock/gmock.h"
#include "tests/collectives/processes.h"
#include "tests/temp_folder.h"

namespace millrace::collectives {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

inline constexpr std::chrono::seconds kLong{60};  // a guard against hangs
inline constexpr std::chrono::milliseconds kShort{1000};
// Within this time each of two processes must get a core, on a loaded machine too.
inline constexpr std::chrono::milliseconds kBoth{3000};

// For a rank 0 that has met all who come when it fails.
inline constexpr RendezvousWaits kNobodyComesLater = {.refusal = std::chrono::milliseconds(0)};

enum class Way { kServer, kFolder };

inline std::string Said(const absl::StatusOr<std::vector<std::string>>& met) {
  return met.ok() ? absl::StrJoin(*met, " ") : met.status().ToString();
}

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
  std::string File(int rank) const { return absl::StrCat(folder_.path(), "/meet/rank-", rank); }
  bool InFolder() const { return GetParam() == Way::kFolder; }

  TempFolder folder_;
  const std::string address_;
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
  const auto first = Start(Options(0, 5, kBoth));
  const auto second = Start(Options(2, 5, kBoth));
  for (const std::string& said : {first->Await(), second->Await()}) {
    EXPECT_THAT(said, StartsWith("DEADLINE_EXCEEDED: rendezvous " + address_ +
                                 ": 3 of 5 ranks never came within 3000 ms: rank 1"));
    EXPECT_THAT(said, AllOf(HasSubstr(", rank 3"), HasSubstr(", rank 4")));
  }
}

TEST_P(Rendezvous, WithoutRankZeroTheOthersNameIt) {
  EXPECT_THAT(Start(Options(1, 2, kShort))->Await(),
              AllOf(StartsWith("DEADLINE_EXCEEDED"), HasSubstr("rank 0 (")));
}

TEST_P(Rendezvous, ARankThatCrashedMayComeAgain) {
  const auto zero = Start(Options(0, 3));
  Start(Options(1, 3, kShort))->Kill();
  const auto one = Start(Options(1, 3));
  const auto two = Start(Options(2, 3));
  EXPECT_EQ(zero->Await(), "r0 r1 r2");
  EXPECT_EQ(one->Await(), "r0 r1 r2");
  EXPECT_EQ(two->Await(), "r0 r1 r2");
}

TEST_P(Rendezvous, RanksOfAnotherJobAreNotTaken) {
  RendezvousOptions other = Options(1, 2, kBoth);
  other.job_id = "another job";
  const auto zero = Start(Options(0, 2));
  const std::string of_other = Start(other)->Await();
  EXPECT_THAT(of_other, HasSubstr("rendezvous " + address_));
  EXPECT_THAT(of_other, HasSubstr("this job"));
  const auto one = Start(Options(1, 2));
  EXPECT_EQ(zero->Await(), "r0 r1");
  EXPECT_EQ(one->Await(), "r0 r1");
}

TEST_P(Rendezvous, RanksOfAnotherSizeAreNotTaken) {
  const auto zero = Start(Options(0, 2, kBoth), kNobodyComesLater);
  const auto one = Start(Options(1, 3, kBoth));
  for (const std::string& said : {zero->Await(), one->Await()}) {
    EXPECT_THAT(said, AnyOf(StartsWith("FAILED_PRECONDITION"), StartsWith("DEADLINE_EXCEEDED")));
    EXPECT_THAT(said, AnyOf(HasSubstr("3 ranks"), HasSubstr("2 ranks")));
  }
}

TEST_P(Rendezvous, TwoProcessesOfOneRankAreAnError) {
  const auto zero = Start(Options(0, 3, kBoth), kNobodyComesLater);
  const auto once = Start(Options(1, 3, kBoth));
  const auto twice = Start(Options(1, 3, kBoth));
  const std::string said[] = {zero->Await(), once->Await(), twice->Await()};
  EXPECT_THAT(said, testing::Contains(HasSubstr("two processes say that they are rank 1")));
  for (const std::string& text : said) EXPECT_THAT(text, testing::Not(HasSubstr("r0 r1")));
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_NET_RENDEZVOUS_CONFORMANCE_H_
