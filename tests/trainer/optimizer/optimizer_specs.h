#ifndef MILLRACE_TESTS_TRAINER_OPTIMIZER_OPTIMIZER_SPECS_H_
#define MILLRACE_TESTS_TRAINER_OPTIMIZER_OPTIMIZER_SPECS_H_

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "trainer/job/job.pb.h"
#include "trainer/job/optimizer_fields.h"
#include "trainer/optimizer/optimizer.h"

namespace millrace::trainer {

// The optimizer of a text, checked and with its defaults, as a job has it.
inline OptimizerSpec ParseOptimizer(const std::string& text) {
  OptimizerSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  const auto bad = CheckOptimizer(spec);
  EXPECT_FALSE(bad) << bad->name() << ": " << bad->why;
  FillDefaults(spec);
  return spec;
}

// The optimizer of a text, of whole parameters of `model`, before the first step.
inline Optimizer MakeWhole(const std::string& text, const Model& model) {
  const OptimizerSpec spec = ParseOptimizer(text);
  return Optimizer(spec, model, MakeSlots(spec, model), WholeParameters(model));
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_OPTIMIZER_OPTIMIZER_SPECS_H_
