#ifndef MILLRACE_TRAINER_STRATEGY_REDUCER_OPTIONS_H_
#define MILLRACE_TRAINER_STRATEGY_REDUCER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/gradient_reducer.h"
#include "collectives/stale_reducer.h"
#include "trainer/backend/cuda/arena_layout.h"
#include "trainer/job/job.pb.h"
#include "trainer/model/model.h"
#include "trainer/optimizer/slots.h"

// The parameters of a model and the options of a job as a reducer takes them.

namespace millrace::trainer {

// Who orders the elements of weights.
enum class WeightsOrder {
  kModel,
  kDevice,  // as ToDeviceOrder: ranks that add gradients in unlike orders are told so by the shapes
};

// The gradients of `model` in the order in which backward makes them: that of the parameters,
// reversed.
std::vector<collectives::GradientSpec> GradientSpecsOf(const Model& model,
                                                       WeightsOrder order = WeightsOrder::kModel);

// The number of parameter `i` in that order.
inline size_t ReducerIndex(const Model& model, size_t i) { return model.parameters.size() - 1 - i; }

// The memory of the gradients of `reducer`, a GradientReducer or a StaleReducer, by parameter.
template <typename Reducer>
std::vector<cuda::GradientPlace> PlacesOf(const Model& model, Reducer& reducer) {
  std::vector<cuda::GradientPlace> places;
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    const size_t index = ReducerIndex(model, i);
    places.push_back(
        {reducer.gradient(index).template as<float>().data(), reducer.bucket_of(index)});
  }
  return places;
}

// The pieces of parameters whose sums this rank gets from `reducer`.
std::vector<Piece> OwnPieces(const Model& model, const collectives::GradientReducer& reducer);

// The reducer's options for `reduction`, which has its defaults filled in.
collectives::ReducerOptions ReducerOptionsOf(const Reduction& reduction);

// The options of late sums for a run of `steps` more steps.
collectives::StaleOptions StaleOptionsOf(const Reduction& reduction, uint64_t steps);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_REDUCER_OPTIONS_H_
