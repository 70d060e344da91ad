#ifndef MILLRACE_TRAINER_RANKS_GUARD_H_
#define MILLRACE_TRAINER_RANKS_GUARD_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/peer_lost.h"
#include "collectives/progress.h"
#include "collectives/timeline.h"
#include "collectives/watchdog.h"
#include "trainer/train.h"

namespace millrace::trainer {

// How long a rank waits for others when something has gone wrong.
struct GuardLimits {
  // For the verdict on which rank is lost, after a connection broke: some turns of a watchdog.
  std::chrono::milliseconds verdict{1500};
  // For a peer that has left: data that it owes may be on their way, for the ranks of a run that is
  // done leave one after the other.
  std::chrono::milliseconds leave{2000};
  // For the watchdogs to tell whose abort it was.
  std::chrono::milliseconds hearsay{500};
  // For the rank that saves.
  std::chrono::milliseconds save = std::chrono::minutes(5);
  // For the other ranks' parts of a timeline, on the rank that puts them together.
  std::chrono::milliseconds parts = std::chrono::seconds(5);
};

// Watches over the ranks of a training: a watchdog that ends every wait of the communicator when a
// rank is lost, and the timeline where one is wanted. A rank alone has no watchdog.
class Guard {
 public:
  // Collective. The communicator must outlive it.
  static absl::StatusOr<std::unique_ptr<Guard>> Make(const TrainOptions& options,
                                                     collectives::Communicator& communicator,
                                                     const GuardLimits& limits = {});
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // The place to which this rank tells what it does.
  collectives::Progress& progress() { return *progress_; }

  // The events of this rank, where a timeline or a trace is wanted; else null.
  collectives::Timeline* timeline() { return timeline_ ? &*timeline_ : nullptr; }

  // Returns an error if waiting has become useless: a rank is lost, or has left long ago. May be
  // called by any thread.
  absl::Status Health() const;

  // Returns `status`, or an error that names the lost peer if that is the cause: a broken
  // connection is often seen before the end of the process at its other side.
  absl::Status Explain(absl::Status status) const;

  // Returns the rank that ended the job by an error of its own (Communicator::Abort), if `status`
  // says that one did; -1 if it is not known which.
  std::optional<collectives::PeerLost> AbortedBy(const absl::Status& status) const;

  // Returns the rank that saves after the loss of `lost`. Takes as long as Watchdog::Elect.
  int Saver(const collectives::PeerLost& lost);
  // True if Saver was called and named this rank.
  bool is_saver() const { return saver_ == communicator_.rank(); }

  // Waits until the rank that saves is done, unless it is this one: launchers end a job soon after
  // its first rank has ended.
  void AwaitSaver();

  // Shows the others that this rank takes part in nothing more.
  void Leave();

  // Writes the timeline of all ranks, where one is wanted (if it cannot, it warns), and says that
  // this rank's run has ended well, so that nobody takes it for lost. Collective.
  absl::Status EndWell();
  // The same where ranks cannot talk any more: the rank that saves puts together what the others
  // leave in files within some seconds. Returns what became of it, for the user; nothing where none
  // is wanted.
  std::string WriteTimelineAfterLoss(const collectives::PeerLost& lost);

 private:
  Guard(collectives::Communicator& communicator, std::function<void(std::string_view)> warn,
        const GuardLimits& limits)
      : communicator_(communicator), warn_(std::move(warn)), limits_(limits) {}

  absl::Status OpenTimeline(const std::string& path);
  absl::Status OpenTrace(const std::string& path);
  // True if the whole timeline is wanted, not only the part that a trace shows.
  bool wants_timeline() const { return !part_.path.empty(); }
  absl::Status OpenWatchdog(const TrainOptions& options);
  std::optional<collectives::PeerLost> LostOf(const absl::Status& status) const;

  collectives::Communicator& communicator_;
  const std::function<void(std::string_view)> warn_;  // may be empty
  const GuardLimits limits_;
  std::optional<int> saver_;
  std::optional<collectives::Timeline> timeline_;
  collectives::TimelinePart part_;  // this rank's part of the timeline, if there is one
  std::unique_ptr<collectives::Watchdog> watchdog_;  // null: one rank
  std::unique_ptr<collectives::Progress> progress_;
  // The time of the first look that met a rank that has left, in the clock's units; 0: none. Any
  // waiting thread -> all, relaxed: the number is all there is.
  mutable std::atomic<int64_t> left_since_ = 0;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RANKS_GUARD_H_
