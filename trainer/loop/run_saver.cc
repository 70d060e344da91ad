#include "trainer/loop/run_saver.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/optimizer/weight_average.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/waiting.h"

namespace millrace::trainer {
namespace {

// The first parameter with a value that is not finite; empty: there is none.
std::string NonFiniteOf(const TrainedModel& trained) {
  for (size_t i = 0; i < trained.weights.size(); ++i) {
    const bool is_finite =
        std::ranges::all_of(trained.weights[i], [](float w) { return std::isfinite(w); });
    if (!is_finite) return trained.model.parameters[i].name;
  }
  return "";
}

// A copy of a model's tensors.
struct CopiedModel {
  const Model& model;
  TensorSet weights;
  Slots slots;
  TensorSet buffers;
};

}  // namespace

RunSaver::RunSaver(collectives::Communicator& communicator, Guard& guard, Session& session)
    : communicator_(communicator),
      guard_(guard),
      session_(session),
      newest_(session.resumed_from),
      durable_step_(session.resumed_from.empty() ? std::nullopt
                                                 : std::optional(session.state.step)),
      begun_step_(durable_step_) {}

void RunSaver::NoteLoss(double loss, const std::string& bad_layer) {
  if (bad_step_ || std::isfinite(loss)) return;
  bad_step_ = session_.state.step;
  bad_layer_ = bad_layer;
}

absl::Status RunSaver::CheckFinite() {
  const auto diverged = [this](uint64_t step, const std::string& what) {
    return absl::OutOfRangeError(
        absl::StrFormat("step %d: %s is not finite (learning rate %g)%s", step, what,
                        session_.main().schedule->RateAt(step - 1), LastGood()));
  };
  if (bad_step_ && bad_layer_.empty()) return diverged(*bad_step_, "the loss");
  if (bad_step_) {
    return diverged(*bad_step_,
                    absl::StrCat("the loss, by the result of layer '", bad_layer_, "',"));
  }
  for (TrainedModel& trained : session_.models) {
    MILLRACE_ASSIGN_OR_RETURN(const bool are_finite, trained.strategy->AreFinite(trained.weights));
    if (are_finite) continue;
    MILLRACE_RETURN_IF_ERROR(trained.FetchWeights());
    return diverged(session_.state.step, absl::StrCat("a value of '", NonFiniteOf(trained), "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<const Slots*>> RunSaver::GatherSlots() {
  std::vector<const Slots*> all;
  for (const TrainedModel& trained : session_.models) {
    MILLRACE_ASSIGN_OR_RETURN(all.emplace_back(), trained.strategy->GatherSlots());
  }
  return all;
}

// Gets the parts of a save that the other ranks have.
absl::StatusOr<std::vector<const Slots*>> RunSaver::Gather(int64_t place) {
  const absl::Status finite = CheckFinite();
  const Waiting waiting(&guard_.progress(), place);
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, finite));
  return GatherSlots();
}

absl::Status RunSaver::Save(int64_t place) {
  if (session_.job.checkpoint_folder.empty() || begun_step_ == session_.state.step) {
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<const Slots*> slots, Gather(place));
  MILLRACE_RETURN_IF_ERROR(Share(Await(), place));
  begun_step_ = session_.state.step;
  return communicator_.rank() == 0 ? Begin(slots) : absl::OkStatus();
}

absl::Status RunSaver::Finish(int64_t place) {
  if (session_.job.checkpoint_folder.empty()) return absl::OkStatus();
  return Share(Await(), place);
}

absl::Status RunSaver::Share(const absl::Status& written, int64_t place) {
  const Waiting waiting(&guard_.progress(), place);
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, written));
  MILLRACE_RETURN_IF_ERROR(BroadcastText(communicator_, newest_));
  durable_step_ = begun_step_;
  return absl::OkStatus();
}

absl::Status RunSaver::Begin(const std::vector<const Slots*>& slots) {
  std::vector<CopiedModel> copied;
  for (size_t i = 0; i < slots.size(); ++i) {
    TrainedModel& trained = session_.models[i];
    MILLRACE_RETURN_IF_ERROR(trained.FetchWeights());
    copied.push_back({trained.model, trained.weights, *slots[i], trained.buffers});
    if (trained.average == nullptr) continue;
    MILLRACE_ASSIGN_OR_RETURN(TensorSet average, trained.average->Export());
    copied.back().slots.push_back({kAverageSlot, std::move(average)});
  }
  const CheckpointPolicy& policy = session_.job.job.checkpoint();
  const KeepRule keep = {static_cast<int>(policy.keep()), static_cast<int>(policy.keep_best())};
  writing_ = std::async(
      std::launch::async,
      [state = session_.state, copied = std::move(copied),
       folder = CheckpointFolder(session_.job.checkpoint_folder, keep, session_.warn,
                                 session_.write_checkpoint)]() -> absl::StatusOr<std::string> {
        std::vector<ModelTensors> tensors;
        for (const CopiedModel& of : copied) {
          tensors.push_back({of.model, of.weights, of.slots, of.buffers});
        }
        return folder.Save(state, tensors);
      });
  return absl::OkStatus();
}

absl::Status RunSaver::Await() {
  if (!writing_.valid()) return absl::OkStatus();
  absl::StatusOr<std::string> path = std::string();
  const absl::Status thrown = WithoutExceptions([&] {
    path = writing_.get();
    return absl::OkStatus();
  });
  MILLRACE_RETURN_IF_ERROR(thrown);
  MILLRACE_RETURN_IF_ERROR(path.status());
  newest_ = *path;
  durable_step_ = begun_step_;
  return absl::OkStatus();
}

// The weights change only between two steps, so they are those of the last whole one.
std::string RunSaver::SaveAfterLoss(const collectives::PeerLost& lost) {
  if (lost.rank == communicator_.rank()) return "the others have given this rank up";
  if (session_.job.checkpoint_folder.empty()) return "the job names no checkpoint folder";
  const bool has_whole_slots = std::ranges::all_of(
      session_.models, [](const TrainedModel& of) { return of.strategy->has_whole_slots(); });
  if (!has_whole_slots) {
    (void)Await();
    if (durable_step_ == session_.state.step) return Saved();
    return absl::StrCat("nothing saved: a part of the optimizer's state is lost with the rank",
                        LastGood());
  }
  const int saver = guard_.Saver(lost);
  if (communicator_.rank() != saver) return absl::StrCat("rank ", saver, " saves");
  absl::Status status = Await();
  if (status.ok() && durable_step_ == session_.state.step) return Saved();
  status = CheckFinite();
  const auto slots = GatherSlots();  // whole, so it waits for no rank
  if (status.ok()) {
    begun_step_ = session_.state.step;
    status = Begin(*slots);
    if (status.ok()) status = Await();
  }
  if (absl::IsAlreadyExists(status)) {  // the peer was lost while this step was being saved
    return absl::StrCat("step ", session_.state.step, " is saved");
  }
  if (!status.ok()) return absl::StrCat("nothing saved: ", status.ToString());
  return absl::StrCat("saved step ", session_.state.step, ": ", newest_);
}

std::string RunSaver::Saved() const {
  return absl::StrCat("step ", session_.state.step, " is saved: ", newest_);
}

std::string RunSaver::LastGood() {
  (void)Await();
  if (newest_.empty()) return "";
  return absl::StrCat("; the last good checkpoint is ", newest_);
}

}  // namespace millrace::trainer
