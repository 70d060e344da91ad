#include "trainer/strategy/weight_update.h"

#include <algorithm>
#include <optional>

#include "base/status.h"
#include "trainer/optimizer/square_sum.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/waiting.h"
#include "trainer/strategy/reducer_options.h"

namespace millrace::trainer {

std::span<const float> WeightUpdate::SumsOf(collectives::GradientReducer& sums, size_t p) const {
  const Piece& piece = pieces()[p];
  const size_t gradient = ReducerIndex(*model_, piece.parameter);
  return sums.gradient(gradient).as<float>().subspan(piece.begin, piece.size());
}

std::span<float> WeightUpdate::WeightsOf(TensorSet& weights, size_t p) const {
  const Piece& piece = pieces()[p];
  return std::span(weights[piece.parameter]).subspan(piece.begin, piece.size());
}

// The pieces of all ranks are put together: first their largest magnitudes, then the sums of
// squares that these allow to make exactly. So the norms do not depend on how parameters are cut.
absl::Status WeightUpdate::FindNorms(collectives::GradientReducer& sums, int64_t step,
                                     TensorSet& weights) {
  const size_t count = model_->parameters.size();
  std::vector<double> largest(2 * count);
  for (size_t p = 0; p < pieces().size(); ++p) {
    if (!optimizer_.wants_norms(p)) continue;
    double* const of = &largest[2 * pieces()[p].parameter];
    of[0] = std::max(of[0], LargestMagnitude(WeightsOf(weights, p)));
    of[1] = std::max(of[1], LargestMagnitude(SumsOf(sums, p)));
  }
  const Waiting waiting(communicator_ != nullptr ? progress_ : nullptr, step);
  if (communicator_ != nullptr) MILLRACE_RETURN_IF_ERROR(MaxOverRanks(*communicator_, largest));
  std::vector<double> squares(4 * count);
  for (size_t p = 0; p < pieces().size(); ++p) {
    if (!optimizer_.wants_norms(p)) continue;
    const size_t i = pieces()[p].parameter;
    const size_t elements = weights[i].size();
    AddSquares(WeightsOf(weights, p), largest[2 * i], elements, &squares[4 * i]);
    AddSquares(SumsOf(sums, p), largest[2 * i + 1], elements, &squares[4 * i + 2]);
  }
  if (communicator_ != nullptr) {
    MILLRACE_RETURN_IF_ERROR(SumOverRanks(*communicator_, std::span<double>(squares)));
  }
  std::vector<ParameterNorms> norms(count);
  for (size_t i = 0; i < count; ++i) {
    norms[i] = {NormOf(&squares[4 * i]), NormOf(&squares[4 * i + 2])};
  }
  optimizer_.SetNorms(std::move(norms));
  return absl::OkStatus();
}

absl::Status WeightUpdate::Apply(collectives::GradientReducer& sums, const UpdateStep& update,
                                 TensorSet& weights) {
  if (optimizer_.has_norms()) {
    MILLRACE_RETURN_IF_ERROR(FindNorms(sums, update.step, weights));
  }
  std::optional<size_t> entered;
  for (size_t p = 0; p < pieces().size(); ++p) {
    const size_t bucket = sums.bucket_of(ReducerIndex(*model_, pieces()[p].parameter));
    if (progress_ != nullptr && bucket != entered) {
      progress_->Enter(update.step, static_cast<int>(bucket), collectives::Phase::kUpdating);
    }
    entered = bucket;
    optimizer_.Apply(p, update, sums.outcome().clip_factor, SumsOf(sums, p), WeightsOf(weights, p));
  }
  return absl::OkStatus();
}

}  // namespace millrace::trainer
