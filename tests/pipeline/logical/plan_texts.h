#ifndef MILLRACE_TESTS_PIPELINE_LOGICAL_PLAN_TEXTS_H_
#define MILLRACE_TESTS_PIPELINE_LOGICAL_PLAN_TEXTS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "pipeline/op_table.h"  // its enumerators too: see below
#include "pipeline/plan.h"
#include "pipeline/plan/message.h"  // its enumerators may not come behind the texts: -Wshadow
#include "pipeline/plan/physical.h"

// Plans from text, for tests of the front-end.

namespace millrace::pipeline {

inline constexpr char kSource[] = "stage { tfrecord { files: \"a\" } }\n";
inline constexpr char kBatch[] = "stage { batch { size: 4 } }\n";

inline Plan Make(const std::string& text, const Variables& variables = {}) {
  auto plan = Plan::FromText(text, "p", variables);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

inline absl::Status ErrorOf(const std::string& text) {
  const auto plan = Plan::FromText(text, "p");
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return plan.status();
}

// The error of `stage` as the second line, between a source and a batch.
inline absl::Status StageError(const std::string& stage) {
  return ErrorOf(kSource + ("stage { " + stage + " }\n") + kBatch);
}

// The stages of the ops that pass 2 runs.
inline std::vector<std::string> OpStages(const PhysicalPlan& plan) {
  std::vector<std::string> names;
  for (const PhysicalOp& op : plan.ops) names.push_back(op.stage);
  return names;
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_LOGICAL_PLAN_TEXTS_H_
