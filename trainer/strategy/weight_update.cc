#include "trainer/strategy/weight_update.h"

#include <optional>
#include <span>

#include "trainer/strategy/reducer_options.h"

namespace millrace::trainer {

void WeightUpdate::Apply(collectives::GradientReducer& sums, const UpdateStep& update,
                         TensorSet& weights) {
  std::optional<size_t> entered;
  for (size_t p = 0; p < pieces().size(); ++p) {
    const Piece& piece = pieces()[p];
    const size_t gradient = ReducerIndex(*model_, piece.parameter);
    const size_t bucket = sums.bucket_of(gradient);
    if (progress_ != nullptr && bucket != entered) {
      progress_->Enter(update.step, static_cast<int>(bucket), collectives::Phase::kUpdating);
    }
    entered = bucket;
    optimizer_.Apply(p, update, sums.outcome().clip_factor,
                     sums.gradient(gradient).as<float>().subspan(piece.begin, piece.size()),
                     std::span(weights[piece.parameter]).subspan(piece.begin, piece.size()));
  }
}

}  // namespace millrace::trainer
