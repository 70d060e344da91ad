// bench_loss_rows TURNS: how long the other ranks of a job do not know that one is lost, in
// milliseconds, by turns. The ranks are three processes that this one forks; they meet over TCP and
// reduce in shared memory, under the watchdog's default options. Prints one JSON object, of
// each the median and as "..._slowest" the slowest turn. It ends with an error where they name
// another rank, or other gradients:
//   killed   from SIGKILL of the last rank to the PeerLost that the slower of the others returns
//   stopped  from SIGSTOP of the last rank to rank 0's warning
//   unlike   from when all have begun to make reducers of unlike plans to the last rank's error
#include <poll.h>
#include <signal.h>  // NOLINT: kill is POSIX
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/gradient_reducer.h"
#include "collectives/peer_lost.h"
#include "collectives/watchdog.h"

namespace millrace {
namespace {

using collectives::Communicator;
using collectives::GradientReducer;
using Clock = std::chrono::steady_clock;  // of the machine, so that processes may compare it

constexpr int kRanks = 3;
constexpr int kLost = kRanks - 1;
constexpr int kStepsBefore = 5;
constexpr int kPatienceMs = 60'000;

[[noreturn]] void Die(std::string_view what) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}

void Check(const absl::Status& status) {
  if (!status.ok()) Die(status.ToString());
}

// Tells the parent when something came about.
class Teller {
 public:
  explicit Teller(int pipe) : pipe_(pipe) {}
  void Now() const {
    const Clock::time_point now = Clock::now();
    if (::write(pipe_, &now, sizeof(now)) != sizeof(now)) ::_exit(1);
  }

 private:
  const int pipe_;
};

using RankBody = std::function<void(Communicator&, const Teller&)>;

// The ranks of a turn; what is left of them at its end is killed.
class Ranks {
 public:
  Ranks(const std::string& rendezvous, const RankBody& body) {
    for (int rank = 0; rank < kRanks; ++rank) {
      int ends[2];
      if (::pipe(ends) != 0) Die("no pipe");
      pids_[rank] = ::fork();
      if (pids_[rank] < 0) Die("no process");
      if (pids_[rank] == 0) Run(rank, rendezvous, body, Teller(ends[1]));
      ::close(ends[1]);
      pipes_[rank] = ends[0];
    }
  }
  ~Ranks() {
    for (int rank = 0; rank < kRanks; ++rank) {
      ::kill(pids_[rank], SIGKILL);
      ::waitpid(pids_[rank], nullptr, 0);
      ::close(pipes_[rank]);
    }
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // The next thing that the rank tells.
  Clock::time_point Await(int rank) const {
    pollfd waiting{pipes_[rank], POLLIN, 0};
    Clock::time_point told;
    if (::poll(&waiting, 1, kPatienceMs) != 1) Die("a rank hangs");
    if (::read(pipes_[rank], &told, sizeof(told)) != sizeof(told)) Die("a rank has ended");
    return told;
  }
  // Of ranks [0, end), each one's next.
  Clock::time_point AwaitLastOf(int end) const {
    Clock::time_point last;
    for (int rank = 0; rank < end; ++rank) last = std::max(last, Await(rank));
    return last;
  }
  void Signal(int rank, int number) const { ::kill(pids_[rank], number); }

 private:
  [[noreturn]] static void Run(int rank, const std::string& rendezvous, const RankBody& body,
                               const Teller& teller) {
    collectives::ConnectOptions options;
    options.backend = "tcp";
    options.flags = {rank, kRanks};
    options.rendezvous = "file:" + rendezvous;
    auto launch = collectives::Connect(options);
    Check(launch.status());
    body(*launch->communicator, teller);
    ::_exit(0);
  }

  std::array<pid_t, kRanks> pids_;
  std::array<int, kRanks> pipes_;
};

double MillisecondsSince(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - start).count();
}

std::vector<collectives::GradientSpec> Gradients(int64_t last) {
  return {{"bias", {1000}}, {"kernel", {1000, 1000}}, {"stem", {last}}};
}

// Steps under a watchdog until one fails; tells when it has made some, then of each stall (with
// `tells_stalls`) and of the loss.
void Train(Communicator& comm, const Teller& teller, bool tells_stalls) {
  collectives::WatchdogOptions watch;
  if (tells_stalls) {
    watch.on_stall = [&teller](const collectives::Stall& stall) {
      if (stall.where.rank != kLost) Die(stall.ToString());
      teller.Now();
    };
  }
  auto watchdog = collectives::Watchdog::Make(comm, watch);
  Check(watchdog.status());
  collectives::ReducerOptions options;
  options.progress = watchdog->get();
  auto reducer = GradientReducer::Make(comm, Gradients(100), options);
  Check(reducer.status());
  absl::Status step;
  for (int done = 0; step.ok(); ++done) {
    if (done == kStepsBefore) teller.Now();
    for (size_t i = 0; step.ok() && i < Gradients(100).size(); ++i) step = (*reducer)->MarkReady(i);
    if (step.ok()) step = (*reducer)->Finish();
  }
  const auto lost = collectives::PeerLostOf(step);
  if (!absl::IsUnavailable(step) || !lost || lost->rank != kLost) Die(step.ToString());
  teller.Now();
}

double Killed(const std::string& folder) {
  const Ranks ranks(folder, [](Communicator& comm, const Teller& teller) {
    Train(comm, teller, /*tells_stalls=*/false);
  });
  (void)ranks.AwaitLastOf(kRanks);
  const Clock::time_point start = Clock::now();
  ranks.Signal(kLost, SIGKILL);
  return MillisecondsSince(start, ranks.AwaitLastOf(kLost));
}

double Stopped(const std::string& folder) {
  const Ranks ranks(folder, [](Communicator& comm, const Teller& teller) {
    Train(comm, teller, /*tells_stalls=*/true);
  });
  (void)ranks.AwaitLastOf(kRanks);
  const Clock::time_point start = Clock::now();
  ranks.Signal(kLost, SIGSTOP);
  return MillisecondsSince(start, ranks.Await(0));
}

double Unlike(const std::string& folder) {
  const Ranks ranks(folder, [](Communicator& comm, const Teller& teller) {
    teller.Now();
    const auto reducer = GradientReducer::Make(comm, Gradients(comm.rank() == kLost ? 101 : 100));
    const std::string told = reducer.status().ToString();
    const bool names = told.find(absl::StrFormat("rank %d", kLost)) != told.npos &&
                       told.find("'stem'") != told.npos;
    if (!absl::IsInvalidArgument(reducer.status()) || !names) Die(told);
    teller.Now();
  });
  const Clock::time_point start = ranks.AwaitLastOf(kRanks);
  return MillisecondsSince(start, ranks.AwaitLastOf(kRanks));
}

std::string Json(const std::string& name, std::vector<double>& times) {
  std::ranges::sort(times);
  return absl::StrFormat("\"%s\": %.3f, \"%s_slowest\": %.3f", name, times[times.size() / 2], name,
                         times.back());
}

int Main(int argc, char** argv) {
  const int turns = argc == 2 ? std::atoi(argv[1]) : 0;
  if (turns < 1) Die("usage: bench_loss_rows TURNS");
  std::string folder = std::filesystem::temp_directory_path() / "millrace-loss-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) Die("no folder for the ranks to meet in");
  std::vector<double> killed, stopped, unlike;
  for (int turn = 0; turn < turns; ++turn) {
    killed.push_back(Killed(folder));
    stopped.push_back(Stopped(folder));
    unlike.push_back(Unlike(folder));
  }
  std::filesystem::remove_all(folder);
  std::printf("{%s, %s, %s}\n", Json("killed", killed).c_str(), Json("stopped", stopped).c_str(),
              Json("unlike", unlike).c_str());
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
