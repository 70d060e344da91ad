#include "trainer/strategy/weight_update.h"

#include <optional>
#include <span>

#include "base/status.h"
#include "trainer/ranks/agree.h"
#include "trainer/strategy/reducer_options.h"

namespace millrace::trainer {

absl::StatusOr<WeightUpdate> WeightUpdate::Make(collectives::Communicator& communicator,
                                                const Model& model, const Optimizer& optimizer,
                                                TensorSet velocity, std::vector<Piece> pieces,
                                                collectives::Progress* progress) {
  absl::StatusOr<Sgd> sgd = Sgd::Make(optimizer, model, std::move(velocity), std::move(pieces));
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator, sgd.status()));
  return WeightUpdate(model, *std::move(sgd), progress);
}

void WeightUpdate::Apply(collectives::GradientReducer& sums, int64_t step, double rate,
                         TensorSet& weights) {
  std::optional<size_t> entered;
  for (size_t p = 0; p < pieces().size(); ++p) {
    const Piece& piece = pieces()[p];
    const size_t gradient = ReducerIndex(*model_, piece.parameter);
    const size_t bucket = sums.bucket_of(gradient);
    if (progress_ != nullptr && bucket != entered) {
      progress_->Enter(step, static_cast<int>(bucket), collectives::Phase::kUpdating);
    }
    entered = bucket;
    const size_t count = piece.end - piece.begin;
    sgd_.Apply(p, rate, sums.outcome().clip_factor,
               sums.gradient(gradient).as<float>().subspan(piece.begin, count),
               std::span(weights[piece.parameter]).subspan(piece.begin, count));
  }
}

}  // namespace millrace::trainer
