// Every part of opening does its work on every rank, then the ranks agree on the outcome, as when a
// training is opened (trainer/loop/session.cc).

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "collectives/peer_lost.h"
#include "trainer/inference.h"
#include "trainer/inference/inference.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/guard.h"
#include "trainer/ranks/report_failure.h"
#include "trainer/ranks/waiting.h"

namespace millrace::trainer {
namespace {

using collectives::Communicator;

class Evaluator {
 public:
  Evaluator(const InferenceOptions& options, Communicator& communicator, Guard& guard)
      : options_(options), communicator_(communicator), guard_(guard) {}

  absl::StatusOr<EvaluationOutcome> Run();

 private:
  absl::Status Agree(const std::function<absl::Status()>& part) {
    const absl::Status mine = WithoutExceptions(part);
    const Waiting waiting = Wait();
    return AgreeOnStatus(communicator_, mine);
  }
  Waiting Wait() const { return Waiting(&guard_.progress(), -1, collectives::Phase::kStart); }
  absl::Status CheckFilesAgree();
  absl::Status Load();
  absl::Status Share();

  const InferenceOptions& options_;
  Communicator& communicator_;
  Guard& guard_;
  Inference inference_;
};

absl::Status Evaluator::CheckFilesAgree() {
  const Waiting waiting = Wait();
  MILLRACE_RETURN_IF_ERROR(
      CheckSameText(communicator_, "the model", inference_.model.ToText(), FirstDifferentLine));
  const std::array<Setting, 1> settings = {{{"the plan", inference_.plan->Fingerprint()}}};
  return CheckSameSettings(communicator_, settings);
}

// Only rank 0 reads the weights, so other hosts need not see the files.
absl::Status Evaluator::Load() {
  LoadedWeights& loaded = inference_.loaded;
  if (communicator_.rank() != 0) {
    loaded.weights = MakeZeros(inference_.model);
    loaded.buffers = MakeInitialBuffers(inference_.model);
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(loaded, LoadOwnWeights(options_, inference_));
  return absl::OkStatus();
}

absl::Status Evaluator::Share() {
  const Waiting waiting = Wait();
  LoadedWeights& loaded = inference_.loaded;
  MILLRACE_RETURN_IF_ERROR(BroadcastTensors(communicator_, loaded.weights));
  return BroadcastTensors(communicator_, loaded.buffers);
}

absl::StatusOr<EvaluationOutcome> Evaluator::Run() {
  MILLRACE_RETURN_IF_ERROR(Agree([&] { return LoadFiles(options_, inference_); }));
  MILLRACE_RETURN_IF_ERROR(CheckFilesAgree());
  MILLRACE_RETURN_IF_ERROR(Agree([&] { return Load(); }));
  MILLRACE_RETURN_IF_ERROR(Share());
  MILLRACE_RETURN_IF_ERROR(Agree([&] {
    return MakeBackend(options_, {communicator_.local_rank(), communicator_.local_size()},
                       communicator_.rank() == 0 ? options_.warn : nullptr, inference_);
  }));
  // Makes the index, with its progress, before the evaluation opens the plan.
  MILLRACE_RETURN_IF_ERROR(Agree([&] {
    const auto pipeline =
        OpenEvaluation(inference_.parts(), communicator_, options_.index_progress);
    return Annotate(pipeline.status(), inference_.plan_path);
  }));
  EvaluationParts parts = inference_.parts();
  parts.done = options_.progress;
  MILLRACE_ASSIGN_OR_RETURN(const Evaluation evaluation,
                            Evaluate(parts, communicator_, guard_.progress(), /*step=*/0));
  return EvaluationOutcome{inference_.loaded.used, LineOf(evaluation, inference_.model.losses[0])};
}

TrainOptions GuardOptions(const InferenceOptions& options) {
  TrainOptions guard;
  guard.stall_report = options.stall_report;
  guard.stall_abort = options.stall_abort;
  guard.start_timeout = options.start_timeout;
  guard.warn = options.warn;
  return guard;
}

absl::StatusOr<EvaluationOutcome> Run(const InferenceOptions& options, Communicator& communicator,
                                      std::unique_ptr<Guard>& guard) {
  MILLRACE_ASSIGN_OR_RETURN(guard, Guard::Make(GuardOptions(options), communicator));
  Evaluator evaluator(options, communicator, *guard);
  EvaluationOutcome outcome;
  const absl::Status status = WithoutExceptions([&] {
    MILLRACE_ASSIGN_OR_RETURN(outcome, evaluator.Run());
    return guard->EndWell();
  });
  if (!status.ok()) return guard->Explain(status);
  return outcome;
}

}  // namespace

absl::StatusOr<EvaluationOutcome> EvaluateJob(const InferenceOptions& options,
                                              Communicator& communicator) {
  absl::Status status;
  {
    std::unique_ptr<Guard> guard;
    EvaluationOutcome outcome;
    status = WithoutExceptions([&] {
      MILLRACE_ASSIGN_OR_RETURN(outcome, Run(options, communicator, guard));
      return absl::OkStatus();
    });
    if (status.ok()) return outcome;
    status = ReportFailure(options.report, communicator, std::move(status));
    if (!IsAgreed(status) && !collectives::PeerLostOf(status)) {
      if (guard != nullptr) guard->Leave();
      communicator.Abort(status);
    }
  }
  // As at the end of a training (trainer/loop/train.cc).
  if (!IsAgreed(status) && collectives::PeerLostOf(status)) communicator.Leave(status);
  return status;
}

}  // namespace millrace::trainer
