#ifndef MILLRACE_TESTS_PIPELINE_STAGES_STAGE_SPECS_H_
#define MILLRACE_TESTS_PIPELINE_STAGES_STAGE_SPECS_H_

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/plan/message.h"
#include "pipeline/stages/specs.h"
#include "tests/pipeline/logical/plan_texts.h"

// Stages as the ops that they become, for tests of stages.

namespace millrace::pipeline {

// The op that `stage`, "flip {}", becomes. It has the stage's name.
inline OpSpec SpecOf(const std::string& stage) {
  const Plan plan = Make(absl::StrCat(kSource, "stage { ", stage, " }", kBatch));
  std::vector<OpSpec> specs = OpsFromPlan(plan.message());
  EXPECT_EQ(specs.size(), 1u) << stage;
  EXPECT_EQ(OpName(specs.at(0).options), stage.substr(0, stage.find(' ')));
  return specs.at(0);
}

// The options of an op, which have this type.
template <typename Options>
Options OptionsIn(const OpSpec& spec) {
  EXPECT_TRUE(std::holds_alternative<Options>(spec.options)) << spec.stage;
  return std::get<Options>(spec.options);
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_STAGES_STAGE_SPECS_H_
