
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/logical/logical.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan/limits.h"
#include "pipeline/stages/table.h"

// Checks the plan as a whole: version, names, lanes. check_order.cc checks which stage may stand
// where, the rows of stages (pipeline/stages) their options.

namespace millrace::pipeline {
namespace {

// The most bytes of a token, by S-STATE-13.
static_assert(2048 + 16 * (kMaxLanes + kMaxOpenRows) <= kMaxTokenBytes);

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '/';
}

// Names are looked at in the order of the text; `first` holds where each stands.
absl::Status CheckName(const PipelineAt& at, int i, std::map<std::string, std::string>* first) {
  const proto::Stage& stage = at.pipeline->stage(i);
  const std::string where = at.At({{"stage", i}, {"name"}});
  if (stage.op_case() == proto::Stage::OP_NOT_SET) {
    return ErrorAt(at.Where(i), "this stage has no op (tfrecord, parse_example, batch, ...)");
  }
  if (stage.name().size() > 64) return ErrorAt(where, "a stage's name has at most 64 characters");
  for (char c : stage.name()) {
    if (IsNameChar(c)) continue;
    return ErrorAt(where, "a stage's name has only letters, digits and \"_-./\"");
  }
  const auto [entry, fresh] = first->emplace(stage.name(), at.Where(i));
  if (fresh) return absl::OkStatus();
  return ErrorAt(where, absl::StrCat("a second stage is called \"", stage.name(),
                                     "\"; the first is at ", entry->second));
}

absl::Status CheckNames(const PipelineAt& at, std::map<std::string, std::string>* first) {
  for (int i = 0; i < at.pipeline->stage_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckName(at, i, first));
    for (const PipelineAt& input : at.Inputs(i)) {
      MILLRACE_RETURN_IF_ERROR(CheckNames(input, first));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const PipelineAt& at) {
  for (int i = 0; i < at.pipeline->stage_size(); ++i) {
    const proto::Stage& stage = at.pipeline->stage(i);
    const StageRow& row = RowOf(stage);
    if (row.check != nullptr) MILLRACE_RETURN_IF_ERROR(row.check(OptionsChecker(at, i), stage));
    for (const PipelineAt& input : at.Inputs(i)) MILLRACE_RETURN_IF_ERROR(CheckOptions(input));
  }
  return absl::OkStatus();
}

absl::Status CheckLanes(const PlanMessage& plan) {
  const uint32_t lanes = plan.pipeline.lanes();
  const std::string where = plan.locations.At({{"lanes"}});
  if (lanes > kMaxLanes) {
    return ErrorAt(where, absl::StrCat("lanes is ", lanes, " but must be in [1, ", kMaxLanes, "]"));
  }
  const auto divides = [&](uint64_t size, const std::string& place) {
    if (size % lanes == 0) return absl::OkStatus();
    return ErrorAt(where, absl::StrCat("lanes is ", lanes, ", which does not divide the ", size,
                                       " rows of the batch at ", place));
  };
  for (int i = 0; i < plan.pipeline.stage_size(); ++i) {
    const proto::Stage& stage = plan.pipeline.stage(i);
    if (KindOf(stage) != StageKind::kBatch) continue;
    for (const uint64_t size : BatchSizesOf(stage)) {
      MILLRACE_RETURN_IF_ERROR(divides(size, plan.Where(i)));
    }
  }
  return absl::OkStatus();
}

// The name of the first stage, up to the batch stage, that no substitute can obey; empty: there is
// none.
std::string NotForReplace(const proto::Pipeline& pipeline) {
  for (const proto::Stage& stage : pipeline.stage()) {
    const bool fixed = stage.has_batch();
    const bool cut = KindOf(stage) == StageKind::kCut && !stage.filter().materialize();
    const bool batch = KindOf(stage) == StageKind::kBatch;
    if (cut || stage.has_push() || stage.has_take() || stage.has_skip() || (batch && !fixed)) {
      return stage.name();
    }
    if (batch) return "";
    const auto* inputs = InputsOf(stage);
    if (inputs == nullptr) continue;
    for (const proto::Pipeline& input : *inputs) {
      if (std::string name = NotForReplace(input); !name.empty()) return name;
    }
  }
  return "";
}

absl::Status CheckDamage(const PlanMessage& plan) {
  const proto::OnDamage& damage = plan.pipeline.on_damage();
  const auto where = [&](std::string_view field) {
    return plan.locations.At({{"on_damage"}, {field}});
  };
  const std::string& policy = damage.policy();
  if (policy.empty()) return absl::OkStatus();  // as it was before there were policies
  if (policy != "fail" && policy != "skip" && policy != "mask" && policy != "replace") {
    return ErrorAt(where("policy"), absl::StrCat("on_damage: policy \"", policy,
                                                 "\" is none of fail, skip, mask, replace"));
  }
  if (!(damage.max_share() >= 0 && damage.max_share() <= 1)) {
    return ErrorAt(where("max_share"), absl::StrCat("on_damage: max_share is ", damage.max_share(),
                                                    " but must be in [0, 1]"));
  }
  if (policy == "fail" && (damage.max_count() != 0 || damage.max_share() != 0)) {
    return ErrorAt(where("policy"), "on_damage: a limit has no meaning with policy \"fail\"");
  }
  if (policy != "replace") return absl::OkStatus();
  const std::string stage = NotForReplace(plan.pipeline);
  if (stage.empty()) return absl::OkStatus();
  return ErrorAt(where("policy"),
                 absl::StrCat("on_damage: policy \"replace\" draws from all records of the source, "
                              "which stage \"",
                              stage, "\" does not admit; take \"skip\" or \"mask\""));
}

absl::Status CheckPerformance(const PlanMessage& plan) {
  const proto::Performance& performance = plan.pipeline.performance();
  const struct {
    std::string_view field;
    uint32_t value;
    uint32_t most;
  } limits[] = {
      {"threads", performance.threads(), kMaxWorkers},
      {"memory_budget_mib", performance.memory_budget_mib(), kMaxBudgetMib},
      {"io_threads", performance.io_threads(), kMaxIoThreads},
      {"read_ahead_runs", performance.read_ahead_runs(), kMaxReadAheadRuns},
      {"run_us", performance.run_us(), kMaxRunMicroseconds},
  };
  for (const auto& limit : limits) {
    if (limit.value <= limit.most) continue;
    return ErrorAt(plan.locations.At({{"performance"}, {limit.field}}),
                   absl::StrCat("performance: ", ToAbsl(limit.field), " is ", limit.value,
                                " but must be at most ", limit.most));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPlan(const PlanMessage& plan) {
  const uint32_t version = plan.pipeline.semantics_version();
  if (version != kSemanticsVersion) {
    return ErrorAt(plan.locations.At({{"semantics_version"}}),
                   absl::StrCat("semantics_version ", version,
                                " is not known here; this program "
                                "has ",
                                kSemanticsVersion));
  }
  std::map<std::string, std::string> names;
  MILLRACE_RETURN_IF_ERROR(CheckNames(PipelineAt::Whole(plan), &names));
  MILLRACE_RETURN_IF_ERROR(CheckStageOrder(plan));
  MILLRACE_RETURN_IF_ERROR(CheckOptions(PipelineAt::Whole(plan)));
  MILLRACE_RETURN_IF_ERROR(CheckLanes(plan));
  MILLRACE_RETURN_IF_ERROR(CheckBatchMixing(plan));
  MILLRACE_RETURN_IF_ERROR(CheckPerformance(plan));
  return CheckDamage(plan);
}

}  // namespace millrace::pipeline
