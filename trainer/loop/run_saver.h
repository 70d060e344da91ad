#ifndef MILLRACE_TRAINER_LOOP_RUN_SAVER_H_
#define MILLRACE_TRAINER_LOOP_RUN_SAVER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/peer_lost.h"
#include "trainer/loop/session.h"
#include "trainer/optimizer/slots.h"
#include "trainer/ranks/guard.h"

namespace millrace::trainer {

// Saves the steps of a run, as long as it has not diverged: a diverged state must not replace the
// checkpoints from before. Thread-compatible.
class RunSaver {
 public:
  // All outlive it.
  RunSaver(collectives::Communicator& communicator, Guard& guard, Session& session);

  // Takes this rank's loss of the session's current step.
  void NoteLoss(double loss);
  // OUT_OF_RANGE: a loss or a weight of this rank is not finite.
  absl::Status CheckFinite() const;

  // Saves the session's state on rank 0, unless it is saved or the job names no folder. Collective;
  // meanwhile reports that this rank waits in step `place`.
  absl::Status Save(int64_t place);
  // The same without the other ranks, if this rank is the lowest that is left. Returns a text about
  // the outcome, for the user.
  std::string SaveAfterLoss(const collectives::PeerLost& lost);

  // The path of the newest checkpoint; empty: there is none.
  const std::string& newest() const { return newest_; }
  // "; the last good checkpoint is ...", or "".
  std::string LastGood() const;

 private:
  absl::StatusOr<const Slots*> Gather(int64_t place);
  absl::StatusOr<std::string> Write(const Slots& slots) const;

  collectives::Communicator& communicator_;
  Guard& guard_;
  Session& session_;
  std::string newest_;
  std::optional<uint64_t> saved_step_;
  std::optional<uint64_t> bad_step_;  // the first whose loss is not finite on this rank
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_RUN_SAVER_H_
