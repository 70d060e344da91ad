#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/plan_message_internal.h"

// Which stages may stand where. Options are checked in plan_check_options.cc.

namespace millrace::pipeline {
namespace {

absl::Status ErrorAt(const std::string& where, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
}

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '/';
}

absl::Status CheckNames(const PlanMessage& plan) {
  std::map<std::string, int> first;
  for (int i = 0; i < plan.pipeline.stage_size(); ++i) {
    const proto::Stage& stage = plan.pipeline.stage(i);
    const std::string where = plan.locations.At({{"stage", i}, {"name"}});
    if (stage.op_case() == proto::Stage::OP_NOT_SET) {
      return ErrorAt(plan.Where(i), "this stage has no op (tfrecord, parse_example, batch, ...)");
    }
    if (stage.name().size() > 64) return ErrorAt(where, "a stage's name has at most 64 characters");
    for (char c : stage.name()) {
      if (IsNameChar(c)) continue;
      return ErrorAt(where, "a stage's name has only letters, digits and \"_-./\"");
    }
    const auto [entry, fresh] = first.emplace(stage.name(), i);
    if (fresh) continue;
    return ErrorAt(where, absl::StrCat("a second stage is called \"", stage.name(),
                                       "\"; the first is at ", plan.Where(entry->second)));
  }
  return absl::OkStatus();
}

// Walks the stages from the source outwards.
class OrderChecker {
 public:
  explicit OrderChecker(const PlanMessage& plan) : plan_(plan) {}

  absl::Status Check() {
    const int n = plan_.pipeline.stage_size();
    for (int i = 0; i < n; ++i) MILLRACE_RETURN_IF_ERROR(CheckStage(i));
    if (n == 0)
      return ErrorAt(plan_.locations.At({}), "a plan needs stages; the first is a source");
    if (batch_ < 0) {
      return ErrorAt(plan_.Where(n - 1), "no batch stage; add stage { batch { size: ... } }");
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckStage(int i) {
    const proto::Stage& stage = plan_.pipeline.stage(i);
    const StageKind kind = KindOf(stage);
    if ((kind == StageKind::kSource) != (i == 0)) {
      return ErrorAt(plan_.Where(i), i == 0 ? absl::StrCat("the first stage must be a source "
                                                           "(tfrecord), not ",
                                                           OpName(stage))
                                            : "a second source; a plan has one, first");
    }
    switch (kind) {
      case StageKind::kSource:
        return absl::OkStatus();
      case StageKind::kOrder:
        return CheckOrder(i, stage);
      case StageKind::kMap:
        if (batch_ < 0) return absl::OkStatus();
        return ErrorAt(plan_.Where(i), absl::StrCat(OpName(stage),
                                                    " works on samples and must "
                                                    "stand before the batch at ",
                                                    plan_.Where(batch_)));
      case StageKind::kBatch:
        return Once(i, "batch", &batch_);
      case StageKind::kPrefetch:
        if (batch_ < 0) return ErrorAt(plan_.Where(i), "prefetch must stand after batch");
        return Once(i, "prefetch", &prefetch_);
    }
    return absl::OkStatus();
  }

  absl::Status Once(int i, const char* op, int* first) {
    if (*first >= 0) {
      return ErrorAt(plan_.Where(i),
                     absl::StrCat("a second ", op, "; the first is at ", plan_.Where(*first)));
    }
    *first = i;
    return absl::OkStatus();
  }

  absl::Status CheckOrder(int i, const proto::Stage& stage) {
    if (stage.has_take()) endless_ = -1;
    if (stage.has_global_shuffle() && batch_ >= 0) {
      return ErrorAt(plan_.Where(i),
                     absl::StrCat("global_shuffle permutes samples and must stand before the batch "
                                  "at ",
                                  plan_.Where(batch_)));
    }
    const bool needs_end = stage.has_global_shuffle() || stage.has_repeat();
    if (needs_end && endless_ >= 0) {
      return ErrorAt(plan_.Where(i), absl::StrCat(OpName(stage), " after the endless repeat at ",
                                                  plan_.Where(endless_),
                                                  " would wait for its end; put it before, "
                                                  "or give that one epochs"));
    }
    if (stage.has_repeat() && stage.repeat().epochs() == 0) endless_ = i;
    return absl::OkStatus();
  }

  const PlanMessage& plan_;
  int batch_ = -1;
  int prefetch_ = -1;
  int endless_ = -1;  // the repeat without end that holds here
};

}  // namespace

std::string PlanMessage::Where(int stage) const { return locations.At({{"stage", stage}}); }

std::string PlanMessage::Where(int stage, std::string_view field, int index) const {
  return locations.At({{"stage", stage}, {OpName(pipeline.stage(stage))}, {field, index}});
}

const std::string& OpName(const proto::Stage& stage) {
  return proto::Stage::descriptor()->FindFieldByNumber(stage.op_case())->name();
}

StageKind KindOf(const proto::Stage& stage) {
  switch (stage.op_case()) {
    case proto::Stage::kTfrecord:
      return StageKind::kSource;
    case proto::Stage::kGlobalShuffle:
    case proto::Stage::kRepeat:
    case proto::Stage::kTake:
    case proto::Stage::kSkip:
      return StageKind::kOrder;
    case proto::Stage::kBatch:
      return StageKind::kBatch;
    case proto::Stage::kPrefetch:
      return StageKind::kPrefetch;
    default:
      return StageKind::kMap;
  }
}

absl::Status CheckPlan(const PlanMessage& plan) {
  const uint32_t version = plan.pipeline.semantics_version();
  if (version != kSemanticsVersion) {
    return ErrorAt(plan.locations.At({{"semantics_version"}}),
                   absl::StrCat("semantics_version ", version,
                                " is not known here; this program "
                                "has ",
                                kSemanticsVersion));
  }
  MILLRACE_RETURN_IF_ERROR(CheckNames(plan));
  MILLRACE_RETURN_IF_ERROR(OrderChecker(plan).Check());
  for (int i = 0; i < plan.pipeline.stage_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckStageOptions(plan, i));
  }
  return absl::OkStatus();
}

}  // namespace millrace::pipeline
