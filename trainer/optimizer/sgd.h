#ifndef MILLRACE_TRAINER_OPTIMIZER_SGD_H_
#define MILLRACE_TRAINER_OPTIMIZER_SGD_H_

#include <memory>

#include "trainer/optimizer/update_rule.h"

namespace millrace::trainer {

class OptimizerSpec;  // job.proto

// Stochastic gradient descent with momentum:
//   d = g + decay * w
//   v = momentum * v + d
//   w -= rate * v   (nesterov: w -= rate * (d + momentum * v))
// The rate stays outside the momentum, so a changing rate needs no correction (Goyal et al. 2017,
// section 3). Slot "momentum": v.
std::unique_ptr<UpdateRule> MakeSgd(const OptimizerSpec& spec);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_SGD_H_
