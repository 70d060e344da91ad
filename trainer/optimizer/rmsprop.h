#ifndef MILLRACE_TRAINER_OPTIMIZER_RMSPROP_H_
#define MILLRACE_TRAINER_OPTIMIZER_RMSPROP_H_

#include <memory>

#include "trainer/optimizer/update_rule.h"

namespace millrace::trainer {

class OptimizerSpec;  // job.proto, which has the formulas

// RMSProp. Slots: "rmsprop_v", the running mean of the square of the gradient; "momentum", if there
// is one; "rmsprop_g", the running mean of the gradient, if it is centered.
std::unique_ptr<UpdateRule> MakeRmsProp(const OptimizerSpec& spec);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_RMSPROP_H_
