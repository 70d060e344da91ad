#ifndef MILLRACE_TRAINER_STRATEGY_REDUCER_OPTIONS_H_
#define MILLRACE_TRAINER_STRATEGY_REDUCER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/gradient_reducer.h"
#include "collectives/stale_reducer.h"
#include "trainer/job/job.pb.h"
#include "trainer/model/model.h"
#include "trainer/optimizer/slots.h"

// The parameters of a model and the options of a job as a reducer takes them.

namespace millrace::trainer {

// The gradients of `model` in the order in which backward makes them: that of the parameters,
// reversed.
std::vector<collectives::GradientSpec> GradientSpecsOf(const Model& model);

// The number of parameter `i` in that order.
inline size_t ReducerIndex(const Model& model, size_t i) { return model.parameters.size() - 1 - i; }

// The pieces of parameters whose sums this rank gets from `reducer`.
std::vector<Piece> OwnPieces(const Model& model, const collectives::GradientReducer& reducer);

// The reducer's options for `reduction`, which has its defaults filled in.
collectives::ReducerOptions ReducerOptionsOf(const Reduction& reduction);

// The options of late sums for a run of `steps` more steps.
collectives::StaleOptions StaleOptionsOf(const Reduction& reduction, uint64_t steps);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STRATEGY_REDUCER_OPTIONS_H_
