#ifndef MILLRACE_PIPELINE_EXPLAIN_INTERNAL_H_
#define MILLRACE_PIPELINE_EXPLAIN_INTERNAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/physical_plan_internal.h"
#include "pipeline/plan.h"

namespace millrace::pipeline {

// What only an opened source can tell.
struct SourceFacts {
  uint64_t shards = 0;
  uint64_t records = 0;
  uint64_t bytes = 0;  // of the inflated shards
  int rank = 0;        // of whom the rows are told
  int world = 1;
};

// How many elements come out of `steps` when `count` go in; nullopt: without end. Counts that do
// not fit 64 bits stay at the largest.
std::optional<uint64_t> CountAfter(std::optional<uint64_t> count,
                                   const std::vector<OrderStep>& steps);

// The text of Explain: logical plan, rules, physical plan, and the source if its facts are there.
std::string ExplainText(const Plan& plan, const PhysicalPlan& physical,
                        const std::optional<SourceFacts>& facts);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXPLAIN_INTERNAL_H_
