#include "trainer/ranks/guard.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/chrome_trace.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/peer_lost.h"
#include "collectives/timeline_progress.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/start_limit.h"

namespace millrace::trainer {
namespace {

using collectives::Phase;

absl::Status LeftError(const collectives::PeerLost& left) {
  return collectives::PeerLostError(left, "it has ended its run before the others");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Guard>> Guard::Make(const TrainOptions& options,
                                                   collectives::Communicator& communicator,
                                                   const GuardLimits& limits) {
  std::unique_ptr<Guard> guard(new Guard(communicator, options.warn, limits));
  {
    const StartLimit limit(communicator, options.start_timeout);
    MILLRACE_RETURN_IF_ERROR(guard->OpenTimeline(options.timeline_file));
    MILLRACE_RETURN_IF_ERROR(guard->OpenTrace(options.trace_file));
    if (communicator.size() > 1) MILLRACE_RETURN_IF_ERROR(guard->OpenWatchdog(options));
  }
  if (guard->watchdog_ != nullptr) {
    collectives::WaitLimits waits = communicator.limits();
    waits.watch = [guard = guard.get()] { return guard->Health(); };
    communicator.set_limits(std::move(waits));
  }
  guard->progress_ =
      std::make_unique<collectives::TimelineProgress>(guard->watchdog_.get(), guard->timeline());
  return guard;
}

absl::Status Guard::OpenWatchdog(const TrainOptions& options) {
  collectives::WatchdogOptions watch;
  watch.stall_report = options.stall_report;
  watch.stall_abort = options.stall_abort;
  watch.on_stall = [&options, rank = communicator_.rank()](const collectives::Stall& stall) {
    if (rank != stall.speaker || !options.warn) return;
    (void)WithoutExceptions([&] {  // which nobody would catch on the watchdog's thread
      options.warn(stall.ToString());
      return absl::OkStatus();
    });
  };
  MILLRACE_ASSIGN_OR_RETURN(watchdog_, collectives::Watchdog::Make(communicator_, watch));
  return absl::OkStatus();
}

Guard::~Guard() {
  collectives::WaitLimits limits = communicator_.limits();
  limits.watch = nullptr;
  communicator_.set_limits(std::move(limits));
}

absl::Status Guard::Health() const {
  if (watchdog_ == nullptr) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(watchdog_->Health());
  const std::optional<collectives::PeerLost> left = watchdog_->Left();
  if (!left) return absl::OkStatus();
  const int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  int64_t since = 0;
  if (left_since_.compare_exchange_strong(since, now, std::memory_order_relaxed)) since = now;
  const std::chrono::steady_clock::duration waited(now - since);
  return waited < limits_.leave ? absl::OkStatus() : LeftError(*left);
}

absl::Status Guard::Explain(absl::Status status) const {
  const bool broken = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  // An error that all ranks have agreed on is no break between them: they leave because of it.
  const std::optional<collectives::PeerLost> lost = LostOf(status);
  const bool known = collectives::IsAgreed(status) || (lost && lost->step >= 0);
  if (watchdog_ == nullptr || !broken || known) return status;
  const auto limit = std::chrono::steady_clock::now() + limits_.verdict;
  while (std::chrono::steady_clock::now() < limit) {
    const absl::Status health = watchdog_->Health();
    if (!health.ok()) return health;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const auto left = watchdog_->Left();
  if (left && (!lost || left->rank == lost->rank)) return LeftError(*left);
  if (!lost) return status;
  return collectives::PeerLostError(watchdog_->LastSeen(lost->rank), std::string(status.message()));
}

// A broken connection tells the number that the rank has in the job, which may be another one here.
std::optional<collectives::PeerLost> Guard::LostOf(const absl::Status& status) const {
  std::optional<collectives::PeerLost> lost = collectives::PeerLostOf(status);
  if (!lost || lost->step >= 0) return lost;
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    if (communicator_.RankInJob(rank) != lost->rank) continue;
    lost->rank = rank;
    return lost;
  }
  return std::nullopt;
}

std::optional<collectives::PeerLost> Guard::AbortedBy(const absl::Status& status) const {
  const bool aborted = absl::IsCancelled(status) && !collectives::IsAgreed(status);
  if (watchdog_ == nullptr || !aborted) return std::nullopt;
  // A rank leaves its watchdog before it aborts, but other hosts may hear of that later.
  const auto limit = std::chrono::steady_clock::now() + limits_.hearsay;
  while (!watchdog_->Left() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return watchdog_->Left().value_or(collectives::PeerLost{.rank = -1});
}

int Guard::Saver(const collectives::PeerLost& lost) {
  if (saver_) return *saver_;
  saver_ = lost.rank == 0 ? 1 : 0;
  if (watchdog_ != nullptr) saver_ = watchdog_->Elect();
  return *saver_;
}

void Guard::AwaitSaver() {
  if (watchdog_ == nullptr || !saver_ || is_saver()) return;
  watchdog_->AwaitLeave(*saver_, limits_.save);
}

// The clocks are compared while all ranks are there: after a loss it is too late.
absl::Status Guard::OpenTimeline(const std::string& path) {
  const Setting wanted = {"whether a timeline is written", path.empty() ? 0u : 1u};
  MILLRACE_RETURN_IF_ERROR(CheckSameSettings(communicator_, {&wanted, 1}));
  if (path.empty()) return absl::OkStatus();
  timeline_.emplace();
  part_.rank = communicator_.rank();
  part_.timeline = &*timeline_;
  part_.path = path;
  // A folder that is not there is an error now, not after days of training.
  const absl::Status writable = communicator_.rank() == 0 ? part_.Write() : absl::OkStatus();
  part_.Forget();
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, Annotate(writable, "timeline")));
  MILLRACE_ASSIGN_OR_RETURN(part_.offset, collectives::ClockOffset(communicator_));
  return absl::OkStatus();
}

absl::Status Guard::OpenTrace(const std::string& path) {
  const Setting wanted = {"whether a trace is written", path.empty() ? 0u : 1u};
  MILLRACE_RETURN_IF_ERROR(CheckSameSettings(communicator_, {&wanted, 1}));
  if (path.empty()) return absl::OkStatus();
  if (!timeline_) timeline_.emplace();
  const absl::Status writable =
      communicator_.rank() == 0 ? WriteChromeTrace(path, {}) : absl::OkStatus();
  return AgreeOnStatus(communicator_, Annotate(writable, "trace"));
}

absl::Status Guard::EndWell() {
  if (wants_timeline()) {
    // Rank 0 writes, and the others wait for it.
    progress_->Enter(-1, -1, communicator_.rank() == 0 ? Phase::kUpdating : Phase::kWaiting);
    const absl::Status written = collectives::WriteTimeline(communicator_, *timeline_, part_.path);
    // A full disk; the trained weights are saved all the same.
    if (!written.ok() && !IsAgreed(written)) return written;
    if (!written.ok() && communicator_.rank() == 0 && warn_) {
      warn_(absl::StrCat("no timeline: ", written.message()));
    }
  }
  progress_->Enter(-1, -1, Phase::kEnded);
  return absl::OkStatus();
}

void Guard::Leave() {
  if (watchdog_ != nullptr) watchdog_->Leave();
}

std::string Guard::WriteTimelineAfterLoss(const collectives::PeerLost& lost) {
  if (!wants_timeline()) return std::string();
  progress_->Enter(-1, -1, Phase::kEnded);
  const int rank = communicator_.rank();
  if (lost.rank == rank || Saver(lost) != rank) {
    const absl::Status written = part_.Write();
    if (!written.ok()) return absl::StrCat("; no timeline: ", written.message());
    return absl::StrCat("; this rank's timeline: ", part_.FileOf(rank));
  }
  std::vector<int> peers;
  for (int peer = 0; peer < communicator_.size(); ++peer) {
    if (peer != rank && peer != lost.rank) peers.push_back(peer);
  }
  const auto merged = part_.Merge(peers, limits_.parts);
  if (!merged.ok()) return absl::StrCat("; no timeline: ", merged.status().message());
  return absl::StrCat("; timeline of rank", merged->size() == 1 ? " " : "s ",
                      absl::StrJoin(*merged, ", "), ": ", part_.path);
}

}  // namespace millrace::trainer
