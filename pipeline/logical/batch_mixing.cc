#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/logical/logical.h"
#include "pipeline/stages/table.h"

namespace millrace::pipeline {
namespace {

// The largest number up to `group` that divides `rows`; below 2 there is none that helps.
uint64_t NearestDivisor(uint64_t rows, uint64_t group) {
  constexpr uint64_t kMostTried = 1 << 20;
  uint64_t divisor = std::min({group, rows, kMostTried});
  while (divisor > 1 && rows % divisor != 0) --divisor;
  return divisor;
}

absl::Status CheckGroup(const PlanMessage& plan, int stage, int batch) {
  const proto::Stage& mixing = plan.pipeline.stage(stage);
  const uint64_t group = RowOf(mixing).mixing(mixing).options.group;
  const uint64_t lanes = plan.pipeline.lanes();
  for (const uint64_t size : BatchSizesOf(plan.pipeline.stage(batch))) {
    const uint64_t rows = size / lanes;
    if (rows % group == 0) continue;
    std::string text = absl::StrCat("group is ", group, ", which does not divide the ", rows,
                                    lanes == 1 ? " rows" : " rows of a lane", " of the batch at ",
                                    plan.Where(batch));
    const uint64_t divisor = NearestDivisor(rows, group);
    absl::StrAppend(&text, divisor < 2 ? "; choose an even number of rows"
                                       : absl::StrCat("; ", divisor, " does"));
    return ErrorAt(plan.Where(stage, "group"), text);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBatchMixing(const PlanMessage& plan) {
  int batch = -1;
  for (int i = 0; i < plan.pipeline.stage_size(); ++i) {
    const proto::Stage& stage = plan.pipeline.stage(i);
    if (KindOf(stage) == StageKind::kBatch) batch = i;
    if (!MixesRows(stage)) continue;
    MILLRACE_RETURN_IF_ERROR(CheckGroup(plan, i, batch));
  }
  return absl::OkStatus();
}

}  // namespace millrace::pipeline
