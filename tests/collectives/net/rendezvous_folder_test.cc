#include <signal.h>  // NOLINT: a limit's signal is POSIX
#include <sys/resource.h>

#include <fstream>

#include "collectives/net/socket.h"
#include "tests/collectives/net/rendezvous_conformance.h"

namespace millrace::collectives {
namespace {

INSTANTIATE_TEST_SUITE_P(Folder, Rendezvous, testing::Values(Way::kFolder));
using FolderRendezvous = Rendezvous;
INSTANTIATE_TEST_SUITE_P(Folder, FolderRendezvous, testing::Values(Way::kFolder));

TEST_P(FolderRendezvous, FilesOfACrashedRunAreReplaced) {
  // All three of a run of four came, and were killed before the last could.
  std::vector<std::unique_ptr<Process>> crashed;
  for (int rank = 0; rank < 3; ++rank) crashed.push_back(Start(Options(rank, 4)));
  for (int rank = 0; rank < 3; ++rank) AwaitFile(rank);
  for (const auto& rank : crashed) rank->Kill();
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(std::filesystem::exists(File(rank)));
  // One that comes alone is not misled by what they left.
  EXPECT_MESSAGE(ErrorIn(Start(Options(3, 4, kShort))->Await()),
                 absl::StatusCode::kDeadlineExceeded);
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 3; rank >= 0; --rank) ranks.push_back(Start(Options(rank, 4)));
  for (const auto& rank : ranks) EXPECT_EQ(rank->Await(), "r0 r1 r2 r3");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "meet"));
}

TEST_P(FolderRendezvous, FilesThatAreNoneOfOursAreNamed) {
  std::filesystem::create_directory(folder_ / "meet");
  std::ofstream(File(1)) << "something else";
  EXPECT_MESSAGE(ErrorIn(Start(Options(0, 2, kShort))->Await()),
                 absl::StatusCode::kDeadlineExceeded);
}

TEST_P(FolderRendezvous, ALinkThatSomeonePlantedIsNotFollowed) {
  std::filesystem::create_directory(folder_ / "meet");
  std::ofstream(folder_ / "victim") << "kept";
  std::filesystem::create_symlink(folder_ / "victim", File(0) + ".new");
  const auto zero = Start(Options(0, 2));
  const auto one = Start(Options(1, 2));
  EXPECT_EQ(zero->Await(), "r0 r1");
  EXPECT_EQ(one->Await(), "r0 r1");
  std::string kept;
  std::ifstream(folder_ / "victim") >> kept;
  EXPECT_EQ(kept, "kept");
}

TEST_P(FolderRendezvous, AFileThatCannotBeWrittenIsAnErrorAndNothingIsLeft) {
  Process zero([this] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{10, 10};  // bytes: a part of the file is written
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return std::string("setrlimit");
    return Said(RunRendezvous(Options(0, 2), std::string(1000, 'x')));
  });
  EXPECT_MESSAGE(ErrorIn(zero.Await()), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "meet"));
}

TEST_P(FolderRendezvous, AFolderThatCannotBeMadeIsNamed) {
  RendezvousOptions options = Options(0, 2);
  options.address = absl::StrCat("file:", folder_.path(), "/no/such");
  EXPECT_MESSAGE(RunRendezvous(options, ""), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace::collectives
