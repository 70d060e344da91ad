#include "trainer/loop/tune_plans.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/backend/cuda/tuning/plan_book.h"
#include "trainer/backend/cuda/tuning/plan_cache.h"
#include "trainer/ranks/agree.h"

namespace millrace::trainer {

using collectives::Communicator;

namespace {

// The rows of every rank's batches, unless the lanes of a cut do not divide evenly.
int64_t RowsOf(const PlanNumbers& numbers, int ranks) {
  return static_cast<int64_t>((numbers.batch + ranks - 1) / ranks);
}

NetworkUse TrainingUse(const TrainedModel& trained) {
  return trained.role == "discriminator" ? NetworkUse::kInputGradients : NetworkUse::kTraining;
}

// The evaluation's network, which is smaller, first: the plans of the others are timed before their
// memory is taken.
absl::Status CompileNetworks(int ranks, Session& session) {
  if (session.eval_plan && session.eval_numbers.batch > 0) {
    MILLRACE_RETURN_IF_ERROR(
        session.main()
            .backend->Compile(RowsOf(session.eval_numbers, ranks), NetworkUse::kEvaluation)
            .status());
  }
  for (TrainedModel& trained : session.models) {
    MILLRACE_RETURN_IF_ERROR(
        trained.backend->Compile(RowsOf(session.train_numbers, ranks), TrainingUse(trained))
            .status());
  }
  return absl::OkStatus();
}

void Warn(const Session& session, const absl::Status& status) {
  if (!status.ok() && session.warn) session.warn(absl::StrCat("cudnn_plans: ", status.message()));
}

absl::Status TuneHere(const std::string& folder, int ranks, Session& session) {
  cuda::TunedPlans& tuned = *session.tuned;
  const cuda::PlanCache cache(folder, session.device->PlansKey());
  const absl::StatusOr<cuda::PlanBook> kept = cache.Load();
  Warn(session, kept.status());
  if (kept.ok()) tuned.Note(*kept);
  MILLRACE_RETURN_IF_ERROR(CompileNetworks(ranks, session));
  if (tuned.num_tuned() > 0) Warn(session, cache.Store(tuned.book()));
  return absl::OkStatus();
}

}  // namespace

absl::Status TunePlans(const std::string& folder, Communicator& communicator, Session& session) {
  const bool is_first = communicator.rank() == 0;
  const absl::Status mine = WithoutExceptions(
      [&] { return is_first ? TuneHere(folder, communicator.size(), session) : absl::OkStatus(); });
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator, mine));
  MILLRACE_RETURN_IF_ERROR(CheckSameText(communicator, "the GPU and its cuDNN",
                                         session.device->PlansKey(), FirstDifferentLine));
  std::string text = is_first ? session.tuned->book().ToText() : "";
  MILLRACE_RETURN_IF_ERROR(BroadcastText(communicator, text));
  const absl::StatusOr<cuda::PlanBook> book = cuda::PlanBook::FromText(text);
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator, book.status()));
  session.tuned->Fix(*book);
  return absl::OkStatus();
}

}  // namespace millrace::trainer
