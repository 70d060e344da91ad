#include "trainer/loop/run_saver.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/waiting.h"

namespace millrace::trainer {

RunSaver::RunSaver(collectives::Communicator& communicator, Guard& guard, Session& session)
    : communicator_(communicator),
      guard_(guard),
      session_(session),
      newest_(session.resumed_from),
      saved_step_(session.resumed_from.empty() ? std::nullopt : std::optional(session.state.step)) {
}

void RunSaver::NoteLoss(double loss) {
  if (!bad_step_ && !std::isfinite(loss)) bad_step_ = session_.state.step;
}

absl::Status RunSaver::CheckFinite() const {
  const auto diverged = [this](uint64_t step, const std::string& what) {
    return absl::OutOfRangeError(absl::StrFormat("step %d: %s is not finite (learning rate %g)%s",
                                                 step, what, session_.schedule->RateAt(step - 1),
                                                 LastGood()));
  };
  if (bad_step_) return diverged(*bad_step_, "the loss");
  for (size_t i = 0; i < session_.weights.size(); ++i) {
    const std::vector<float>& weights = session_.weights[i];
    if (!std::all_of(weights.begin(), weights.end(), [](float w) { return std::isfinite(w); })) {
      return diverged(session_.state.step,
                      absl::StrCat("a value of '", session_.model.parameters[i].name, "'"));
    }
  }
  return absl::OkStatus();
}

// Gets the parts of a save that the other ranks have.
absl::StatusOr<const Slots*> RunSaver::Gather(int64_t place) {
  const absl::Status finite = CheckFinite();
  const Waiting waiting(&guard_.progress(), place);
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, finite));
  return session_.strategy->GatherSlots();
}

// Rank 0 writes; the others wait for the outcome.
absl::Status RunSaver::Save(int64_t place) {
  const JobFile& job = session_.job;
  if (job.checkpoint_folder.empty() || saved_step_ == session_.state.step) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Slots* const slots, Gather(place));
  absl::StatusOr<std::string> path = std::string();
  if (communicator_.rank() == 0) path = Write(*slots);
  if (path.ok() && communicator_.rank() == 0) {  // also if other ranks fail
    newest_ = *path;
    saved_step_ = session_.state.step;
  }
  const Waiting waiting(&guard_.progress(), place);
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, path.status()));
  MILLRACE_RETURN_IF_ERROR(BroadcastText(communicator_, *path));
  newest_ = *path;
  saved_step_ = session_.state.step;
  return absl::OkStatus();
}

absl::StatusOr<std::string> RunSaver::Write(const Slots& slots) const {
  const JobFile& job = session_.job;
  const CheckpointFolder folder(job.checkpoint_folder,
                                static_cast<int>(job.job.checkpoint().keep()), session_.warn);
  if (!session_.average) {
    return folder.Save(session_.model, session_.state, session_.weights, slots);
  }
  Slots all = slots;
  all.push_back({kAverageSlot, session_.average->tensors()});
  return folder.Save(session_.model, session_.state, session_.weights, all);
}

// The weights change only between two steps, so they are those of the last whole one.
std::string RunSaver::SaveAfterLoss(const collectives::PeerLost& lost) {
  if (lost.rank == communicator_.rank()) return "the others have given this rank up";
  if (session_.job.checkpoint_folder.empty()) return "the job names no checkpoint folder";
  if (saved_step_ == session_.state.step) {
    return absl::StrCat("step ", session_.state.step, " is saved: ", newest_);
  }
  if (!session_.strategy->has_whole_slots()) {
    return absl::StrCat("nothing saved: a part of the optimizer's state is lost with the rank",
                        LastGood());
  }
  const int saver = guard_.Saver(lost);
  if (communicator_.rank() != saver) return absl::StrCat("rank ", saver, " saves");
  const absl::Status finite = CheckFinite();
  const auto slots = session_.strategy->GatherSlots();  // whole, so it waits for no rank
  const absl::StatusOr<std::string> path = finite.ok() ? Write(**slots) : finite;
  if (absl::IsAlreadyExists(path.status())) {  // the peer was lost while this step was being saved
    return absl::StrCat("step ", session_.state.step, " is saved");
  }
  if (!path.ok()) return absl::StrCat("nothing saved: ", path.status().ToString());
  return absl::StrCat("saved step ", session_.state.step, ": ", *path);
}

std::string RunSaver::LastGood() const {
  if (newest_.empty()) return "";
  return absl::StrCat("; the last good checkpoint is ", newest_);
}

}  // namespace millrace::trainer
