#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <thread>

#include "collectives/factory.h"
#include "collectives/gradient_reducer.h"
#include "collectives/host/host.h"
#include "gmock/gmock.h"
#include "tests/collectives/forked_ranks.h"
#include "tests/collectives/test_buffer.h"

namespace millrace::collectives {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

absl::Status Fine() { return absl::OkStatus(); }

// Files in /dev/shm that process `pid` has made.
int CountLeftovers(pid_t pid = getpid()) {
  const std::string prefix = absl::StrCat("millrace-", pid, "-");
  int count = 0;
  DIR* const folder = opendir("/dev/shm");
  if (folder == nullptr) return 0;
  while (const dirent* const entry = readdir(folder)) {
    if (std::string_view(entry->d_name).starts_with(prefix)) ++count;
  }
  closedir(folder);
  return count;
}

TEST(SharedFlag, IsReachedByTheCountAndWhatIsLater) {
  SharedFlag flag = {};
  EXPECT_TRUE(HasReached(flag, 0));
  EXPECT_FALSE(HasReached(flag, 1));
  Raise(flag, 3);
  EXPECT_TRUE(HasReached(flag, 3));
  EXPECT_TRUE(HasReached(flag, 2));
  EXPECT_FALSE(HasReached(flag, 4));
}

TEST(SharedFlag, CountsWrap) {
  SharedFlag flag = {};
  Raise(flag, 0xFFFFFFFFu);
  EXPECT_FALSE(HasReached(flag, 1));
  Raise(flag, 1);
  EXPECT_TRUE(HasReached(flag, 0xFFFFFFFFu));
  EXPECT_TRUE(HasReached(flag, 1));
}

TEST(SharedFlag, ASleeperIsWoken) {
  SharedFlag flag = {};
  int data = 0;
  std::thread waiter([&] {
    EXPECT_TRUE(AwaitFlag(flag, 1, Deadline::max(), Fine).ok());
    EXPECT_EQ(data, 5);
  });
  while (flag.sleepers.load() == 0) std::this_thread::yield();
  data = 5;
  Raise(flag, 1);
  waiter.join();
}

// In turns, since a waiter that has not fallen asleep yet needs nobody to wake it.
TEST(SharedFlag, ASleeperIsWokenByAnotherProcess) {
  constexpr int kTurns = 50;
  constexpr size_t kBytes = kTurns * sizeof(SharedFlag);
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span flags(static_cast<SharedFlag*>(memory), kTurns);
  const auto outcomes = RunForked(2, std::chrono::seconds(60), [&](Communicator& comm) {
    for (SharedFlag& flag : flags) {
      if (comm.rank() == 0) {
        MILLRACE_RETURN_IF_ERROR(
            AwaitFlag(flag, 1, Deadline::max(), Fine, std::chrono::minutes(10)));
        continue;
      }
      while (flag.sleepers.load() == 0) std::this_thread::yield();
      for (int i = 0; i < 100; ++i) std::this_thread::yield();  // it is about to sleep
      Raise(flag, 1);
    }
    return absl::OkStatus();
  });
  for (const absl::Status& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome;
  munmap(memory, kBytes);
}

TEST(SharedFlag, TheDeadlineEndsAWait) {
  SharedFlag flag = {};
  EXPECT_TRUE(absl::IsDeadlineExceeded(AwaitFlag(flag, 1, DeadlineAfter(milliseconds(1)), Fine)));
}

TEST(SharedFlag, ATimeoutBeyondTheClocksEndIsNever) {
  EXPECT_EQ(DeadlineAfter(std::chrono::nanoseconds::max()), Deadline::max());
  EXPECT_EQ(DeadlineAfter(std::chrono::nanoseconds(0)), Deadline::max());
  EXPECT_LT(DeadlineAfter(std::chrono::hours(1)), Deadline::max());
}

TEST(SharedFlag, TheCheckIsAskedAgainAndAgain) {
  SharedFlag flag = {};
  int asked = 0;
  const absl::Status status = AwaitFlag(flag, 1, Deadline::max(), [&asked] {
    return ++asked < 3 ? absl::OkStatus() : absl::UnavailableError("peer lost");
  });
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(asked, 3);
}

TEST(SharedFlag, WhoDozesIsNotToBeWoken) {
  SharedFlag flag = {};
  std::atomic<int> looked = 0;
  std::thread dozer([&] {
    // So long that it does not ask to be woken.
    const absl::Status status = DozeUntil(flag, 1, std::chrono::hours(1), [&looked] {
      ++looked;
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  });
  while (looked < 3) {
    EXPECT_EQ(flag.sleepers.load(), 0u);
    std::this_thread::yield();
  }
  Raise(flag, 1);
  dozer.join();
}

TEST(SharedFlag, TheCheckEndsADoze) {
  SharedFlag flag = {};
  const absl::Status status =
      DozeUntil(flag, 1, std::chrono::hours(1), [] { return absl::UnavailableError("peer lost"); });
  EXPECT_TRUE(absl::IsUnavailable(status));
}

TEST(SharedFlag, WhoDozesLooksSeldomUntilItIsTimeAndThenOften) {
  using std::chrono::milliseconds;
  EXPECT_EQ(NextDoze(milliseconds(0), std::chrono::hours(1)), milliseconds(50));
  EXPECT_EQ(NextDoze(milliseconds(0), milliseconds(800)), milliseconds(50));
  EXPECT_EQ(NextDoze(milliseconds(690), milliseconds(800)), milliseconds(10));
  EXPECT_EQ(NextDoze(milliseconds(800), milliseconds(800)), std::chrono::microseconds(500));
  EXPECT_EQ(NextDoze(milliseconds(1799), milliseconds(800)), std::chrono::microseconds(500));
}

TEST(SharedFlag, WhoDozesASecondTooLongAsksToBeWoken) {
  using std::chrono::milliseconds;
  EXPECT_EQ(NextDoze(milliseconds(1800), milliseconds(800)), std::nullopt);
  EXPECT_EQ(NextDoze(milliseconds(1000), milliseconds(0)), std::nullopt);
  SharedFlag flag = {};
  // A time that has passed before the first look.
  std::thread dozer(
      [&flag] { EXPECT_TRUE(DozeUntil(flag, 1, -std::chrono::hours(1), Fine).ok()); });
  while (flag.sleepers.load() == 0) std::this_thread::yield();
  Raise(flag, 1);
  dozer.join();
}

// 16 threads count to 200 in turn; on fewer cores only sleepers let the next one run.
TEST(SharedFlag, WorksWhereWaitersOutnumberCores) {
  SharedFlag flag = {};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 16; ++t) {
    threads.emplace_back([&flag, t] {
      for (uint32_t turn = t; turn < 200; turn += 16) {
        EXPECT_TRUE(AwaitFlag(flag, turn, Deadline::max(), Fine).ok());
        Raise(flag, turn + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(HasReached(flag, 200));
}

// Of 4 ranks each has an object of its own; 11 have two copies in each, and one in the last.
TEST(SharedHost, RanksSeeEachOthersCopies) {
  for (const auto& [ranks, bytes] :
       {std::pair(4, size_t{0}), std::pair(4, size_t{100}), std::pair(4, size_t{3} << 20),
        std::pair(11, size_t{100}), std::pair(11, size_t{3} << 20)}) {
    const absl::Status status =
        RunRanks(ranks, [bytes = bytes](Communicator& comm) -> absl::Status {
          MILLRACE_ASSIGN_OR_RETURN(const SharedHostResult made, SharedHost::Make(comm, bytes));
          if (made.host == nullptr) return Fail(made.refused);
          SharedHost& host = *made.host;
          const size_t alignment = bytes >= (2 << 20) ? 2 << 20 : 4096;
          for (int r = 0; r < comm.size(); ++r) {
            if (reinterpret_cast<uintptr_t>(host.copy(r)) % alignment != 0)
              return Fail("alignment");
            for (size_t i = 0; i < bytes; i += 1000) {
              if (host.copy(r)[i] != std::byte{0}) return Fail("not zero");
            }
          }
          MILLRACE_RETURN_IF_ERROR(comm.Barrier());
          std::memset(host.copy(host.rank()), host.rank() + 1, bytes);
          Raise(host.board(host.rank()).published, 7);
          for (int r = 0; r < comm.size(); ++r) {
            MILLRACE_RETURN_IF_ERROR(AwaitFlag(host.board(r).published, 7,
                                               DeadlineAfter(std::chrono::seconds(60)), Fine));
            for (size_t i = 0; i < bytes; ++i) {
              if (host.copy(r)[i] != static_cast<std::byte>(r + 1)) return Fail("another's bytes");
            }
          }
          return comm.Barrier();
        });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(SharedHost, HasNoNameOnceItIsMade) {
  const absl::Status status = RunRanks(11, [](Communicator& comm) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const SharedHostResult made, SharedHost::Make(comm, 5000));
    if (made.host == nullptr) return Fail(made.refused);
    MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    return CountLeftovers() == 0 ? absl::OkStatus() : Fail("a name is left");
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(SharedHost, AKilledRankLeavesNothingBehind) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    (void)RunRanks(2, [&fds](Communicator& comm) -> absl::Status {
      const auto made = SharedHost::Make(comm, 5 << 20);
      const char told = made.ok() && made->host != nullptr ? 'y' : 'n';
      if (comm.rank() == 0 && write(fds[1], &told, 1) != 1) _exit(1);
      while (true) pause();
    });
    _exit(1);
  }
  char told = 0;
  ASSERT_EQ(read(fds[0], &told, 1), 1);
  EXPECT_EQ(told, 'y');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(CountLeftovers(child), 0);
  close(fds[0]);
  close(fds[1]);
}

// Kills its process in the `call`th call, counted from 0.
class DyingCommunicator final : public Communicator {
 public:
  DyingCommunicator(Communicator& group, int call) : group_(group), left_(call) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  int local_rank() const override { return group_.local_rank(); }
  int local_size() const override { return group_.local_size(); }
  std::string_view backend() const override { return group_.backend(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    return group_.Split(color, key);
  }
  void Abort(const absl::Status& reason) override { group_.Abort(reason); }
  void Leave(const absl::Status& reason) override { group_.Leave(reason); }

 private:
  absl::Status RunChecked(const Request& request, const absl::Status&) override {
    if (left_-- == 0) kill(getpid(), SIGKILL);
    return group_.Run(request);
  }
  std::unique_ptr<Pending> StartChecked(const Request& request, const absl::Status&) override {
    return group_.Start(request);
  }

  Communicator& group_;
  int left_;
};

TEST(SharedHost, ALowestRankThatIsKilledInMakeLeavesNothingBehind) {
  char folder[] = "/tmp/millrace_shared_host_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  for (int call = 0; call < 3; ++call) {
    const auto outcomes =
        RunForked(3, std::chrono::seconds(60), [&](Communicator& comm) -> absl::Status {
          DyingCommunicator dying(comm, call);
          Communicator& used = comm.rank() == 0 ? static_cast<Communicator&>(dying) : comm;
          return SharedHost::Make(used, 100, folder).status();
        });
    EXPECT_TRUE(absl::IsAborted(outcomes[0])) << outcomes[0];  // it has died
    EXPECT_TRUE(absl::IsUnavailable(outcomes[1])) << outcomes[1];
    EXPECT_TRUE(absl::IsUnavailable(outcomes[2])) << outcomes[2];
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << "killed in call " << call;
  }
  std::filesystem::remove_all(folder);
}

TEST(SharedHost, WhoeverLeavesSaysSo) {
  const absl::Status status = RunRanks(2, [](Communicator& comm) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(SharedHostResult made, SharedHost::Make(comm, 100));
    if (comm.rank() == 1) {
      made.host.reset();
      return comm.Barrier();
    }
    MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    return made.host->board(1).gone.load() == 1 ? absl::OkStatus() : Fail("not gone");
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(SharedHost, AFolderThatIsMissingIsRefusedOnAllRanks) {
  const absl::Status status = RunRanks(3, [](Communicator& comm) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const SharedHostResult made,
                              SharedHost::Make(comm, 100, "/nowhere/at/all"));
    EXPECT_EQ(made.host, nullptr);
    EXPECT_THAT(made.refused, HasSubstr("/nowhere/at/all"));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Reduces `count` numbers over two ranks where the process may not make files so large, or where
// /dev/shm is too small: 0 when the sums are right and the summary says why memory is not shared.
int ReduceWithoutSharedMemory(std::string_view reason, int count = 1 << 20) {
  const absl::Status status = RunRanks(2, [&](Communicator& comm) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, GradientReducer::Make(comm, {{"g", {count}}}));
    if (reducer->Summary().find(reason) == std::string::npos) return Fail(reducer->Summary());
    for (float& value : reducer->gradient(0).as<float>()) value = 1 + comm.rank();
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    for (const float value : reducer->gradient(0).as<float>()) {
      if (value != 3) return Fail("sum");
    }
    return absl::OkStatus();
  });
  if (!status.ok()) fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() && CountLeftovers() == 0 ? 0 : 1;
}

// Runs `body` in a child; its exit code.
template <typename Body>
int InChild(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

constexpr int kCannot = 77;

bool WriteTo(const char* path, const std::string& text) {
  std::ofstream file(path);
  return static_cast<bool>(file << text << std::flush);
}

// Gives this process a /dev/shm of its own. Without a user in the namespace it could make no file
// there.
bool TakeDevShm(const std::string& room) {
  const uid_t user = getuid();
  const gid_t group = getgid();
  return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && WriteTo("/proc/self/setgroups", "deny") &&
         WriteTo("/proc/self/uid_map", absl::StrCat("0 ", user, " 1")) &&
         WriteTo("/proc/self/gid_map", absl::StrCat("0 ", group, " 1")) &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", "/dev/shm", "tmpfs", 0, room.c_str()) == 0;
}

TEST(SharedHost, ADevShmThatIsTooSmallIsFoundOutWithoutASignal) {
  // With one page a rank's own copy may fit where the boards do not: nothing may be written to
  // those. With 7 MiB one of two copies fits.
  for (const auto& [room, gradients] :
       {std::pair("size=1m", 1 << 20), std::pair("size=7m", 1 << 20), std::pair("size=4k", 10)}) {
    const int code = InChild([room = room, gradients = gradients] {
      if (!TakeDevShm(room)) return kCannot;
      return ReduceWithoutSharedMemory("ranks: No space left on device", gradients);
    });
    if (code == kCannot) GTEST_SKIP() << "no namespaces here";
    EXPECT_EQ(code, 0) << room;
  }
}

// Fills copies of 5 pages of 11 ranks, if they are shared: 0 when that is as `fits` says.
int FillCopies(bool fits) {
  const absl::Status status = RunRanks(11, [fits](Communicator& comm) -> absl::Status {
    constexpr size_t kBytes = 5 * 4096;
    MILLRACE_ASSIGN_OR_RETURN(const SharedHostResult made, SharedHost::Make(comm, kBytes));
    if ((made.host != nullptr) != fits) return Fail(made.refused);
    if (fits) std::memset(made.host->copy(comm.rank()), 1, kBytes);
    return comm.Barrier();
  });
  if (!status.ok()) fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

// Pages that are reserved in the wrong place would take the room of others.
TEST(SharedHost, EachPageIsReservedOnce) {
  const size_t pages = (sizeof(RankBoard) * 11 + 4095) / 4096 + 11 * 5;
  for (const bool fits : {true, false}) {
    const int code = InChild([&] {
      const std::string room = absl::StrCat("size=", (pages - (fits ? 0 : 1)) * 4096);
      return TakeDevShm(room) ? FillCopies(fits) : kCannot;
    });
    if (code == kCannot) GTEST_SKIP() << "no namespaces here";
    EXPECT_EQ(code, 0) << (fits ? "fits" : "a page too few");
  }
}

TEST(SharedHost, ALimitOfFileSizesIsFoundOut) {
  EXPECT_EQ(InChild([] {
              const rlimit limit = {1 << 20, 1 << 20};
              std::signal(SIGXFSZ, SIG_IGN);
              if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
              return ReduceWithoutSharedMemory("File too large");
            }),
            0);
}

TEST(HostIdentity, IsKnownAndTheSameEachTime) {
  EXPECT_NE(HostIdentity(), 0u);
  EXPECT_EQ(HostIdentity(), HostIdentity());
}

}  // namespace
}  // namespace millrace::collectives
