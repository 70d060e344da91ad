#include "collectives/watchdog.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "collectives/agreed.h"
#include "collectives/host/host.h"
#include "collectives/host/host_group.h"
#include "collectives/watch/links.h"
#include "collectives/watch/progress_board.h"
#include "collectives/watch/stall_watch.h"
#include "collectives/watch/watchdog.h"

namespace millrace::collectives {
namespace {

using std::chrono::milliseconds;

const char* Describe(Cause cause) {
  switch (cause) {
    case Cause::kEnded:
      return "its process has ended";
    case Cause::kSilent:
      return "its process does not run (stopped, or its host hangs)";
    case Cause::kStalled:
      return "it runs, but did not come on for too long";
    case Cause::kCutOff:
      return "its host cannot be reached";
  }
  return "unknown";
}

// The PID namespace of this process; containers may share memory but not this namespace.
int64_t PidNamespace() {
  struct stat space = {};
  return ::stat("/proc/self/ns/pid", &space) == 0 ? static_cast<int64_t>(space.st_ino) : 0;
}

// A process of this host whose end can be waited for.
class ProcessHandle {
 public:
  // No process: the rank is a thread of this process, or its process has no number here.
  ProcessHandle() = default;
  explicit ProcessHandle(int pid)
      : fd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))),
        gone_(!fd_.valid() && errno == ESRCH) {}

  // -1: no process, or a system without pidfd: only the page is watched.
  int fd() const { return fd_.get(); }
  bool gone() const { return gone_; }  // true if it ended before it could be opened

 private:
  UniqueFd fd_;
  bool gone_ = false;
};

struct LocalPeer {
  int rank = 0;  // in the job
  ProcessHandle process;
};

class PagesWatchdog final : public Watchdog {
 public:
  PagesWatchdog(int rank, std::unique_ptr<SharedHost> memory, int num_ranks,
                std::vector<LocalPeer> peers, std::unique_ptr<WatchdogLinks> links,
                WatchdogOptions options, WatchdogPace pace)
      : rank_(rank),
        memory_(std::move(memory)),
        board_(memory_->copy(0), num_ranks),
        peers_(std::move(peers)),
        links_(std::move(links)),
        options_(std::move(options)),
        pace_(std::move(pace)),
        stalls_(rank, num_ranks, options_.stall_report, options_.stall_abort) {
    WritePage();
  }
  ~PagesWatchdog() override {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    Show(Presence::kLeft);
    if (links_ != nullptr) links_->Leave(board_);
  }

  absl::Status Start() {
    try {
      thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(absl::StrCat("no thread for a watchdog: ", error.what()));
    }
    return absl::OkStatus();
  }

  void Enter(int64_t step, int bucket, Phase phase) override {
    const MutexLock lock(mu_);
    own_.step = step;
    own_.bucket = bucket;
    own_.phase = phase;
    board_.page(rank_).Write(own_);
  }

  void Leave() override { Show(Presence::kLeft); }

  int Elect() override {
    Show(Presence::kKnowsOfLoss);
    Wait(pace_.election / 2);
    std::vector<uint64_t> beats(board_.num_ranks());
    for (int rank = 0; rank < board_.num_ranks(); ++rank) {
      beats[rank] = board_.page(rank).Read().beat;
    }
    Wait(pace_.election / 2);
    const int elected = LowestOf(Presence::kActs, beats)
                            .value_or(LowestOf(Presence::kKnowsOfLoss, beats).value_or(rank_));
    if (elected == rank_) Show(Presence::kActs);
    return elected;
  }

  void AwaitLeave(int rank, milliseconds limit) override {
    const Deadline start = pace_.clock();
    Deadline lived = start;
    uint64_t beat = board_.page(rank).Read().beat;
    for (Deadline now = start; now - start < limit; now = pace_.clock()) {
      const Sighting sighting = board_.page(rank).Read();
      if (sighting.presence == Presence::kLeft) return;
      if (sighting.beat != beat) {
        beat = sighting.beat;
        lived = now;
      }
      if (now - lived > pace_.silence) return;
      std::this_thread::sleep_for(pace_.turn);
    }
  }

  std::optional<PeerLost> Left() const override {
    for (int rank = 0; rank < board_.num_ranks(); ++rank) {
      const Sighting last = board_.page(rank).Read();
      if (last.presence != Presence::kLeft || last.phase == Phase::kEnded) continue;
      return PeerLost{rank, last.step, last.bucket, last.phase};
    }
    return std::nullopt;
  }

  PeerLost LastSeen(int rank) const override {
    const Sighting last = board_.page(rank).Read();
    return {rank, last.step, last.bucket, last.phase};
  }

  absl::Status Health() const override {
    const std::optional<Verdict> verdict = board_.verdict();
    if (!verdict) return absl::OkStatus();
    return PeerLostError(LastSeen(verdict->rank), Describe(verdict->cause));
  }

 private:
  void Show(Presence presence) {
    const MutexLock lock(mu_);
    own_.presence = presence;
    board_.page(rank_).Write(own_);
  }

  void Wait(milliseconds time) const {
    const Deadline end = pace_.clock() + time;
    for (Deadline now = pace_.clock(); now < end; now = pace_.clock()) {
      std::this_thread::sleep_for(std::min<Deadline::duration>(end - now, pace_.turn));
    }
  }

  // The lowest rank whose page shows `presence` and a newer beat than in `beats`.
  std::optional<int> LowestOf(Presence presence, const std::vector<uint64_t>& beats) const {
    const std::optional<Verdict> verdict = board_.verdict();
    for (int rank = 0; rank < board_.num_ranks(); ++rank) {
      const Sighting sighting = board_.page(rank).Read();
      const bool lives = sighting.beat != beats[rank] && !(verdict && verdict->rank == rank);
      if (lives && sighting.presence == presence) return rank;
    }
    return std::nullopt;
  }

  void WritePage() {
    const MutexLock lock(mu_);
    ++own_.beat;
    board_.page(rank_).Write(own_);
  }

  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      WritePage();
      if (links_ != nullptr) links_->Exchange(board_);
      LookForStalls();
      WaitForDeaths();
    }
  }

  // Sleeps for the rest of a turn, or until a local process ends.
  void WaitForDeaths() {
    std::vector<pollfd> waits;
    std::vector<int> ranks;
    for (const LocalPeer& peer : peers_) {
      if (board_.page(peer.rank).Read().presence == Presence::kLeft) continue;
      if (peer.process.gone()) board_.Give({peer.rank, Cause::kEnded});
      if (peer.process.fd() < 0) continue;
      waits.push_back({peer.process.fd(), POLLIN, 0});
      ranks.push_back(peer.rank);
    }
    const int limit = board_.verdict() ? 0 : static_cast<int>(pace_.turn.count());
    if (limit == 0) std::this_thread::sleep_for(pace_.turn);  // ended processes stay readable
    if (::poll(waits.data(), waits.size(), limit) <= 0) return;
    for (size_t i = 0; i < waits.size(); ++i) {
      // It may have left between the look and the end.
      const bool left = board_.page(ranks[i]).Read().presence == Presence::kLeft;
      if (waits[i].revents != 0 && !left) board_.Give({ranks[i], Cause::kEnded});
    }
  }

  void LookForStalls() {
    if (board_.verdict()) return;
    for (const StallWatch::Finding& finding : stalls_.Look(board_, pace_.clock())) {
      if (finding.give_up) {
        board_.Give(
            {finding.stall.where.rank, finding.stall.silent ? Cause::kSilent : Cause::kStalled});
      } else if (options_.on_stall) {
        options_.on_stall(finding.stall);
      }
    }
  }

  const int rank_;
  const std::unique_ptr<SharedHost> memory_;  // the board is in the first copy
  mutable ProgressBoard board_;
  const std::vector<LocalPeer> peers_;
  const std::unique_ptr<WatchdogLinks> links_;  // null: one host, or not this host's lowest rank
  const WatchdogOptions options_;
  const WatchdogPace pace_;
  StallWatch stalls_;  // of the thread

  Mutex mu_;
  Sighting own_ MILLRACE_GUARDED_BY(mu_);

  std::jthread thread_;  // last: it uses all the others
};

// The pids and the ranks in the job of all ranks of this host.
absl::StatusOr<std::vector<LocalPeer>> FindPeers(Communicator& host, int rank) {
  struct Who {
    int64_t pid;
    int64_t space;
    int64_t rank;
  };
  Who own{::getpid(), PidNamespace(), rank};
  std::vector<Who> all(host.size());
  MILLRACE_RETURN_IF_ERROR(host.AllGather(TensorView{&own, DType::kI64, Shape{3}},
                                          {all.data(), DType::kI64, Shape{3 * host.size()}}));
  std::vector<LocalPeer> peers;
  for (const Who& who : all) {
    if (who.rank == rank) continue;
    const bool can_wait = who.space == own.space && who.pid != own.pid;
    peers.push_back({static_cast<int>(who.rank),
                     can_wait ? ProcessHandle(static_cast<int>(who.pid)) : ProcessHandle()});
  }
  return peers;
}

// The ranks of the job on this host, lowest first.
std::vector<int> RanksOf(const std::vector<LocalPeer>& peers, int rank) {
  std::vector<int> ranks = {rank};
  for (const LocalPeer& peer : peers) ranks.push_back(peer.rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

absl::Status AgreeOn(Communicator& communicator, const absl::Status& own) {
  int64_t failed = own.ok() ? communicator.size() : communicator.rank();
  MILLRACE_RETURN_IF_ERROR(
      communicator.AllReduce(TensorView{&failed, DType::kI64, Shape{1}}, ReduceOp::kMin));
  if (!own.ok()) return own;  // the others do not know why
  if (failed == communicator.size()) return absl::OkStatus();
  return MarkAgreed(absl::UnavailableError(absl::StrCat("rank ", failed, " has no watchdog")));
}

// `memory` holds the board of the ranks of `host`; null: there is none.
absl::StatusOr<std::unique_ptr<Watchdog>> MakeOn(Communicator& job, Communicator& host,
                                                 std::unique_ptr<SharedHost> memory,
                                                 const WatchdogOptions& options,
                                                 const WatchdogPace& pace) {
  MILLRACE_RETURN_IF_ERROR(
      AgreeOn(job, memory != nullptr ? absl::OkStatus()
                                     : absl::ResourceExhaustedError("no memory for a watchdog")));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<LocalPeer> peers, FindPeers(host, job.rank()));
  std::unique_ptr<WatchdogLinks> links;
  MILLRACE_RETURN_IF_ERROR(WatchdogLinks::Make(job, host.rank() == 0, RanksOf(peers, job.rank()),
                                               options.address, &links));
  auto watchdog = std::make_unique<PagesWatchdog>(
      job.rank(), std::move(memory), job.size(), std::move(peers), std::move(links), options, pace);
  MILLRACE_RETURN_IF_ERROR(AgreeOn(job, watchdog->Start()));
  return watchdog;
}

}  // namespace

std::string Stall::ToString() const {
  std::string text = absl::StrFormat("rank %d has not come on for %.1f s: %s", where.rank,
                                     static_cast<double>(since.count()) / 1e3, Name(where.phase));
  if (where.step >= 0) absl::StrAppend(&text, ", step ", where.step);
  if (where.bucket >= 0) absl::StrAppend(&text, ", bucket ", where.bucket);
  if (silent) absl::StrAppend(&text, " (its process does not run)");
  return text;
}

absl::StatusOr<std::unique_ptr<Watchdog>> Watchdog::Make(Communicator& communicator,
                                                         const WatchdogOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const auto host, SplitByHost(communicator));
  return MakeWatchdog(communicator, *host, options);
}

absl::StatusOr<std::unique_ptr<Watchdog>> MakeWatchdog(Communicator& job, Communicator& host,
                                                       const WatchdogOptions& options,
                                                       const WatchdogPace& pace) {
  const size_t bytes = ProgressBoard::SizeBytes(job.size());
  MILLRACE_ASSIGN_OR_RETURN(SharedHostResult shared, SharedHost::Make(host, bytes));
  int64_t refused = shared.host == nullptr ? 1 : 0;
  MILLRACE_RETURN_IF_ERROR(
      job.AllReduce(TensorView{&refused, DType::kI64, Shape{1}}, ReduceOp::kMax));
  if (refused == 0) return MakeOn(job, host, std::move(shared.host), options, pace);
  // Without memory to share every rank is a host of its own.
  MILLRACE_ASSIGN_OR_RETURN(const auto alone, job.Split(job.rank(), 0));
  return MakeOn(job, *alone, SharedHost::MakePrivate(bytes), options, pace);
}

}  // namespace millrace::collectives
