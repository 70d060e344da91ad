#ifndef MILLRACE_TRAINER_OPTIMIZER_PARAMETER_GROUPS_H_
#define MILLRACE_TRAINER_OPTIMIZER_PARAMETER_GROUPS_H_

#include <optional>
#include <string>
#include <vector>

#include "trainer/job/bad_field.h"
#include "trainer/model/model.h"

// The settings of an optimizer that differ from parameter to parameter: a job's `group`s.

namespace millrace::trainer {

class OptimizerSpec;  // job.proto

struct ParameterSettings {
  float weight_decay = 0;
  double lr_scale = 1;
  bool frozen = false;  // true if the parameter is not updated
  bool trust = true;    // true if it has a trust ratio, with an optimizer that has them

  friend bool operator==(const ParameterSettings&, const ParameterSettings&) = default;
};

// By parameter of `model`.
std::vector<ParameterSettings> SettingsOf(const OptimizerSpec& spec, const Model& model);

// Returns the first pattern of a group that matches no parameter of `model`; nullopt: none.
std::optional<BadField> CheckGroups(const OptimizerSpec& spec, const Model& model);

// "*/bias: 4 parameters, rate times 2; ..., the rest: 4"; "none" without groups.
std::string DescribeGroups(const OptimizerSpec& spec, const Model& model);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_PARAMETER_GROUPS_H_
