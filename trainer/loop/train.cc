#include "trainer/train.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/peer_lost.h"
#include "trainer/loop/parts.h"
#include "trainer/loop/run_saver.h"
#include "trainer/loop/session.h"
#include "trainer/loop/training_loop.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/guard.h"
#include "trainer/ranks/report_failure.h"

namespace millrace::trainer {

using collectives::Communicator;

namespace {

// The open parts of a run. Closing them may take long (reads that are on their way, a watchdog that
// waits for the other hosts), so the outcome of the run is reported before.
struct Held {
  std::unique_ptr<Guard> guard;
  std::unique_ptr<Session> session;
};

// Adds the lost peer's place, and the outcome of saving, to the error.
absl::Status AfterLoss(const TrainOptions& options, RunSaver& saver, Guard& guard,
                       Telemetry& telemetry, const absl::Status& status) {
  const auto aborted = guard.AbortedBy(status);
  const auto lost = aborted ? aborted : collectives::PeerLostOf(status);
  if (!lost) return status;
  telemetry.AddLoss();
  const std::string saved = saver.SaveAfterLoss(*lost);
  const std::string timeline = guard.WriteTimelineAfterLoss(*lost);
  // The rank that failed reports the reason, the others only this.
  if (aborted && guard.is_saver() && options.warn) {
    options.warn(absl::StrCat("another rank has failed; ", saved));
  }
  absl::Status told(status.code(), absl::StrCat(status.message(), "; ", saved, timeline));
  status.ForEachPayload(
      [&told](absl::string_view url, const absl::Cord& payload) { told.SetPayload(url, payload); });
  return told;
}

// Ends this rank's part in all steps, in `step`; the others hear `why`.
void LeaveSteps(Session& session, int64_t step, const absl::Status& why) {
  if (session.sums != nullptr) session.sums->Leave(step, why);
  for (TrainedModel& trained : session.models) trained.strategy->Leave(why);
}

absl::StatusOr<TrainOutcome> Run(const TrainParts& parts, const TrainOptions& options,
                                 Communicator& communicator, Held& held) {
  MILLRACE_ASSIGN_OR_RETURN(held.guard, Guard::Make(options, communicator, parts.limits));
  Guard& guard = *held.guard;
  auto session = OpenSession(options, communicator, guard.progress(), parts);
  if (!session.ok()) return guard.Explain(session.status());
  held.session = *std::move(session);
  held.session->write_checkpoint = parts.write_checkpoint;
  held.session->thread_trials = parts.thread_trials;
  TrainingLoop loop(options, communicator, guard, *held.session);
  TrainOutcome outcome;
  absl::Status status = WithoutExceptions([&] {
    MILLRACE_ASSIGN_OR_RETURN(outcome, loop.Run());
    return guard.EndWell();
  });
  if (status.ok()) return outcome;
  status = guard.Explain(status);
  // Peers may be in a step that needs this rank.
  if (!IsAgreed(status)) LeaveSteps(*held.session, loop.place(), status);
  return AfterLoss(options, loop.saver(), guard, *held.session->telemetry, status);
}

}  // namespace

absl::StatusOr<TrainOutcome> Train(const TrainOptions& options, Communicator& communicator) {
  return TrainWith(TrainParts(), options, communicator);
}

absl::StatusOr<TrainOutcome> TrainWith(const TrainParts& parts, const TrainOptions& options,
                                       Communicator& communicator) {
  TrainOutcome outcome;
  absl::Status status;
  {
    Held held;
    status = WithoutExceptions([&] {
      MILLRACE_ASSIGN_OR_RETURN(outcome, Run(parts, options, communicator, held));
      return absl::OkStatus();
    });
    if (status.ok()) return outcome;
    status = ReportFailure(options.report, communicator, std::move(status));
    if (held.guard != nullptr) held.guard->AwaitSaver();
    if (!IsAgreed(status) && !collectives::PeerLostOf(status)) {
      if (held.guard != nullptr) held.guard->Leave();
      communicator.Abort(status);
    }
  }
  // Every watchdog knows of a lost peer, and MPI would end the job before the others have reported
  // and saved. Unless this rank leaves, MPI would wait for the lost one at the end.
  if (!IsAgreed(status) && collectives::PeerLostOf(status)) communicator.Leave(status);
  return status;
}

}  // namespace millrace::trainer
