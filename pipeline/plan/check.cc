#include "pipeline/plan/check.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/pipeline.h"
#include "pipeline/stages/mixing.h"

// What holds for the plan as a whole: version, names, lanes. Which stage may stand where is in
// plan_check_order.cc, options are in plan_check_options.cc.

namespace millrace::pipeline {
namespace {

// What a token may have at most, by S-STATE-13.
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
    MILLRACE_RETURN_IF_ERROR(CheckStageOptions(at, i));
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
    const std::string place = plan.Where(i);
    if (stage.has_batch()) MILLRACE_RETURN_IF_ERROR(divides(stage.batch().size(), place));
    if (stage.has_padded_batch()) {
      MILLRACE_RETURN_IF_ERROR(divides(stage.padded_batch().size(), place));
    }
    if (stage.has_ragged_batch()) {
      MILLRACE_RETURN_IF_ERROR(divides(stage.ragged_batch().size(), place));
    }
    for (uint64_t size : stage.bucket_by_length().batch_size()) {
      MILLRACE_RETURN_IF_ERROR(divides(size, place));
    }
  }
  return absl::OkStatus();
}

// What stands before the batch stage and no substitute can obey; empty: nothing does.
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

}  // namespace

std::string PlanMessage::Where(int stage) const { return PipelineAt::Whole(*this).Where(stage); }

std::string PlanMessage::Where(int stage, std::string_view field, int index) const {
  return PipelineAt::Whole(*this).Where(stage, field, index);
}

std::string PipelineAt::At(std::vector<FieldStep> steps) const {
  steps.insert(steps.begin(), path.begin(), path.end());
  return plan->locations.At(steps);
}

std::string PipelineAt::Where(int stage, std::string_view field, int index) const {
  return At({{"stage", stage}, {OpName(pipeline->stage(stage))}, {field, index}});
}

std::vector<PipelineAt> PipelineAt::Inputs(int stage) const {
  std::vector<PipelineAt> inputs;
  const auto* pipelines = InputsOf(pipeline->stage(stage));
  if (pipelines == nullptr) return inputs;
  for (int k = 0; k < pipelines->size(); ++k) {
    std::vector<FieldStep> down = path;
    down.push_back({"stage", stage});
    down.push_back({OpName(pipeline->stage(stage))});
    down.push_back({"input", k});
    inputs.push_back({plan, &pipelines->Get(k), std::move(down)});
  }
  return inputs;
}

const std::string& OpName(const proto::Stage& stage) {
  return proto::Stage::descriptor()->FindFieldByNumber(stage.op_case())->name();
}

StageKind KindOf(const proto::Stage& stage) {
  switch (stage.op_case()) {
    case proto::Stage::kTfrecord:
    case proto::Stage::kRange:
    case proto::Stage::kPush:
    case proto::Stage::kConcatenate:
    case proto::Stage::kMix:
    case proto::Stage::kZip:
    case proto::Stage::kFixedLength:
    case proto::Stage::kText:
    case proto::Stage::kCsv:
    case proto::Stage::kTar:
    case proto::Stage::kIdx:
    case proto::Stage::kImageFolder:
    case proto::Stage::kMemory:
      return StageKind::kSource;
    case proto::Stage::kInterleave:
    case proto::Stage::kShuffle:
    case proto::Stage::kShard:
    case proto::Stage::kGlobalShuffle:
    case proto::Stage::kRepeat:
    case proto::Stage::kTake:
    case proto::Stage::kSkip:
      return StageKind::kOrder;
    case proto::Stage::kFilter:
    case proto::Stage::kUnbatch:
      return StageKind::kCut;
    case proto::Stage::kBatch:
    case proto::Stage::kPaddedBatch:
    case proto::Stage::kRaggedBatch:
    case proto::Stage::kBucketByLength:
      return StageKind::kBatch;
    case proto::Stage::kPrefetch:
      return StageKind::kPrefetch;
    default:
      return StageKind::kMap;
  }
}

bool ReadsFiles(const proto::Stage& stage) {
  return stage.has_tfrecord() || stage.has_fixed_length() || stage.has_text() || stage.has_csv() ||
         stage.has_tar() || stage.has_idx();
}

bool MixesRows(const proto::Stage& stage) {
  return stage.has_mixup() || stage.has_cutmix() || stage.has_mixup_or_cutmix();
}

const google::protobuf::RepeatedPtrField<proto::Pipeline>* InputsOf(const proto::Stage& stage) {
  if (stage.has_concatenate()) return &stage.concatenate().input();
  if (stage.has_mix()) return &stage.mix().input();
  if (stage.has_zip()) return &stage.zip().input();
  return nullptr;
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
  std::map<std::string, std::string> names;
  MILLRACE_RETURN_IF_ERROR(CheckNames(PipelineAt::Whole(plan), &names));
  MILLRACE_RETURN_IF_ERROR(CheckStageOrder(plan));
  MILLRACE_RETURN_IF_ERROR(CheckOptions(PipelineAt::Whole(plan)));
  MILLRACE_RETURN_IF_ERROR(CheckLanes(plan));
  MILLRACE_RETURN_IF_ERROR(CheckMixing(plan));
  return CheckDamage(plan);
}

}  // namespace millrace::pipeline
