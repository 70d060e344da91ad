#ifndef MILLRACE_TRAINER_OPTIMIZER_LARS_H_
#define MILLRACE_TRAINER_OPTIMIZER_LARS_H_

#include <memory>

#include "trainer/optimizer/update_rule.h"

namespace millrace::trainer {

class OptimizerSpec;  // job.proto, which has the formulas

// LARS. The rate stays outside of the momentum: with the paper's form, where it is inside, this is
// the same as correcting the momentum when the rate changes (Goyal et al. 2017, section 3). Slot
// "momentum".
std::unique_ptr<UpdateRule> MakeLars(const OptimizerSpec& spec);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_LARS_H_
