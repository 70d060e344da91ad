#ifndef MILLRACE_TRAINER_OPTIMIZER_ADAM_H_
#define MILLRACE_TRAINER_OPTIMIZER_ADAM_H_

#include <memory>

#include "trainer/optimizer/update_rule.h"

namespace millrace::trainer {

class OptimizerSpec;  // job.proto, which has the formulas

// Adam: the weight decay is a part of the gradient. Slots "adam_m" and "adam_v": the running means
// of the gradient and of its square.
std::unique_ptr<UpdateRule> MakeAdam(const OptimizerSpec& spec);

// AdamW: the weights decay apart from the gradient. The same slots.
std::unique_ptr<UpdateRule> MakeAdamW(const OptimizerSpec& spec);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_ADAM_H_
