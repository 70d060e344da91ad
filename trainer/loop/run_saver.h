#ifndef MILLRACE_TRAINER_LOOP_RUN_SAVER_H_
#define MILLRACE_TRAINER_LOOP_RUN_SAVER_H_

#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/peer_lost.h"
#include "trainer/loop/session.h"
#include "trainer/optimizer/slots.h"
#include "trainer/ranks/guard.h"

namespace millrace::trainer {

// Saves the steps of a run, as long as it has not diverged: a diverged state must not replace the
// checkpoints from before. Rank 0 copies the state, and a thread writes the copy while the steps go
// on; one file is written at a time. Thread-compatible. Its destructor waits for the file.
class RunSaver {
 public:
  // All outlive it.
  RunSaver(collectives::Communicator& communicator, Guard& guard, Session& session);

  // Takes this rank's loss of the session's current step, and the first layer with values that are
  // not finite ("": not known).
  void NoteLoss(double loss, const std::string& bad_layer);
  // OUT_OF_RANGE: a loss or a weight of this rank is not finite.
  absl::Status CheckFinite();

  // Begins to save the session's state on rank 0, unless that was begun before or the job names no
  // folder. Waits for the file that was begun before, and returns its error. Collective; meanwhile
  // reports that this rank waits in step `place`.
  absl::Status Save(int64_t place);
  // Waits until all that was begun is durable. Collective, as Save.
  absl::Status Finish(int64_t place);
  // Saves without the other ranks, if this rank is the lowest that is left. Returns a text about
  // the outcome, for the user.
  std::string SaveAfterLoss(const collectives::PeerLost& lost);

  // The path of the newest durable checkpoint; on ranks other than 0, of that which the last Save
  // or Finish knew of. Empty: there is none.
  const std::string& newest() const { return newest_; }
  // "; the last good checkpoint is ...", or "". Waits for the file that is being written.
  std::string LastGood();

 private:
  // The slots of each model.
  absl::StatusOr<std::vector<const Slots*>> GatherSlots();
  absl::StatusOr<std::vector<const Slots*>> Gather(int64_t place);
  // Copies the state and begins to write it.
  absl::Status Begin(const std::vector<const Slots*>& slots);
  // Waits for the file that is being written, if there is one.
  absl::Status Await();
  std::string Saved() const;  // the text of a step that is durable
  // The outcome of Await on rank 0 becomes that of all ranks, and its newest path.
  absl::Status Share(const absl::Status& written, int64_t place);

  collectives::Communicator& communicator_;
  Guard& guard_;
  Session& session_;
  std::string newest_;
  std::optional<uint64_t> durable_step_;  // of newest_
  std::optional<uint64_t> begun_step_;    // the newest that is durable or being written
  std::optional<uint64_t> bad_step_;      // the first whose loss is not finite on this rank
  std::string bad_layer_;                 // the layer of that step where it began
  std::future<absl::StatusOr<std::string>> writing_;  // the path of begun_step_, on rank 0
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_RUN_SAVER_H_
