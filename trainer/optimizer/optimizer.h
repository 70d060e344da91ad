#ifndef MILLRACE_TRAINER_OPTIMIZER_OPTIMIZER_H_
#define MILLRACE_TRAINER_OPTIMIZER_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/model/model.h"
#include "trainer/optimizer/parameter_groups.h"
#include "trainer/optimizer/slots.h"
#include "trainer/optimizer/update_rule.h"

namespace millrace::trainer {

class OptimizerSpec;  // job.proto

// The rule that `spec`, checked and with its defaults filled in (optimizer_fields.h), names.
std::unique_ptr<UpdateRule> MakeUpdateRule(const OptimizerSpec& spec);

// The slots of that rule for all parameters of `model`, as zeros.
Slots MakeSlots(const OptimizerSpec& spec, const Model& model);

// "SGD, momentum 0.9 (Nesterov), weight decay 0.0001 (not on biases and norms)".
std::string DescribeOptimizer(const OptimizerSpec& spec);

// One update of all weights, which is the same on all ranks.
struct UpdateStep {
  int64_t step = 0;    // number of the step in the training, from 0
  uint64_t count = 1;  // number of updates with this one; less than the steps if some were skipped
  double rate = 0;     // learning rate
};

// An optimizer of some pieces of the parameters, with their state. Thread-compatible.
class Optimizer {
 public:
  // Updates only `pieces` and keeps only their state. `slots` are MakeSlots', or a checkpoint's.
  Optimizer(const OptimizerSpec& spec, const Model& model, Slots slots, std::vector<Piece> pieces);

  // True if updates need norms: of the parameter of piece `i`, or of some parameter, on all ranks.
  bool wants_norms(size_t i) const;
  bool has_norms() const { return rule_->trust().has_value(); }
  // Sets the norms for the next updates, by parameter; those of gradients are before `scale`.
  void SetNorms(std::vector<ParameterNorms> norms) { norms_ = std::move(norms); }

  // Applies `gradient`, each element times `scale`, to `weights`, both of piece `i` from element
  // `begin` on, unless its parameter is frozen. Threads may apply different elements at a time.
  // Throws nothing.
  void Apply(size_t i, const UpdateStep& update, float scale, std::span<const float> gradient,
             std::span<float> weights, size_t begin = 0);

  const std::vector<Piece>& pieces() const { return pieces_; }
  // The state, by piece.
  const Slots& slots() const { return slots_; }

 private:
  std::unique_ptr<UpdateRule> rule_;
  std::vector<Piece> pieces_;
  std::vector<ParameterSettings> settings_;  // by piece
  Slots slots_;                              // by piece
  std::vector<ParameterNorms> norms_;        // by parameter
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_OPTIMIZER_H_
