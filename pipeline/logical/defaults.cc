#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/logical/logical.h"
#include "pipeline/stages/feature_keys.h"
#include "pipeline/stages/table.h"

// Fills in the parts that a plan's text may leave out. This is done here and in the rows of stages
// alone, so that the fingerprint, ToText and explain see the same plan whether the parts were
// written or not.

namespace millrace::pipeline {
namespace {

// Calls `f` with every stage of the pipeline and its inputs, in the order of the text, a join
// before its inputs.
template <typename Function>
void ForEachStage(proto::Pipeline* pipeline, const Function& f) {
  for (proto::Stage& stage : *pipeline->mutable_stage()) {
    f(&stage);
    auto* const inputs = MutableInputsOf(&stage);
    if (inputs == nullptr) continue;
    for (proto::Pipeline& input : *inputs) ForEachStage(&input, f);
  }
}

void FillOptions(proto::Stage* stage) {
  if (const StageRow& row = RowOf(*stage); row.fill != nullptr) row.fill(stage);
}

// Without the names of a header, columns are the keys.
void FillColumns(proto::Stage* stage) {
  if (!stage->has_parse_csv() || !stage->parse_csv().column().empty()) return;
  for (const proto::Feature& feature : Expanded(stage->parse_csv().feature())) {
    stage->mutable_parse_csv()->add_column(feature.key());
  }
}

// The op's name, or the first of name_2, name_3, ... that no stage has.
void FillName(proto::Stage* stage, std::set<std::string>* taken) {
  if (!stage->name().empty() || stage->op_case() == proto::Stage::OP_NOT_SET) return;
  const std::string& op = OpName(*stage);
  std::string name = op;
  for (int n = 2; !taken->insert(name).second; ++n) name = absl::StrCat(op, "_", n);
  stage->set_name(name);
}

void FillDamage(proto::OnDamage* damage) {
  if (damage->policy().empty()) damage->set_policy("fail");
  if (damage->policy() == "fail") return;
  const bool limited = damage->max_count() != 0 || damage->max_share() != 0;
  damage->set_max_share(limited ? damage->max_share() : 0.1);
}

}  // namespace

void FillDefaults(proto::Pipeline* pipeline) {
  if (pipeline->semantics_version() == 0) pipeline->set_semantics_version(kSemanticsVersion);
  if (pipeline->lanes() == 0) pipeline->set_lanes(1);
  if (pipeline->has_on_damage()) FillDamage(pipeline->mutable_on_damage());
  std::set<std::string> taken;
  bool has_header = false;
  ForEachStage(pipeline, [&](proto::Stage* stage) {
    FillOptions(stage);
    taken.insert(stage->name());
    has_header |= stage->csv().header() && !stage->csv().ignore_header_names();
  });
  if (!has_header) ForEachStage(pipeline, FillColumns);
  ForEachStage(pipeline, [&](proto::Stage* stage) { FillName(stage, &taken); });
}

}  // namespace millrace::pipeline
