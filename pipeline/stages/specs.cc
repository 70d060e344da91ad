#include "pipeline/stages/specs.h"

#include <string>
#include <utility>

#include "pipeline/plan/message.h"
#include "pipeline/stages/table.h"

namespace millrace::pipeline {
namespace {

// The one_hot of integer labels that a stage behind the batch wants done before it, if it does.
void AppendOneHot(const PlanMessage& plan, int i, std::vector<OpSpec>* specs) {
  const proto::Stage& stage = plan.pipeline.stage(i);
  if (!MixesRows(stage)) return;
  const MixingOfStage mixing = RowOf(stage).mixing(stage);
  if (mixing.num_classes == 0) return;
  specs->push_back({stage.name(), plan.Where(i),
                    augment::OneHotOptions{mixing.options.label, mixing.num_classes}});
}

}  // namespace

OpSpec::OpSpec(std::string stage_in, std::string where_in, OpOptions options_in)
    : stage(std::move(stage_in)), where(std::move(where_in)), options(std::move(options_in)) {}
OpSpec::OpSpec(const OpSpec&) = default;
OpSpec::OpSpec(OpSpec&&) noexcept = default;
OpSpec& OpSpec::operator=(const OpSpec&) = default;
OpSpec& OpSpec::operator=(OpSpec&&) noexcept = default;
OpSpec::~OpSpec() = default;

std::vector<OpSpec> OpsFromPlan(const PlanMessage& plan) {
  std::vector<OpSpec> specs;
  bool batched = false;
  for (int i = 0; i < plan.pipeline.stage_size(); ++i) {
    const proto::Stage& stage = plan.pipeline.stage(i);
    const StageRow& row = RowOf(stage);
    AppendOneHot(plan, i, &specs);
    if (row.kind == StageKind::kBatch) batched = true;
    if (batched || row.read == nullptr) continue;
    OpOptions options = row.read(stage);
    if (auto* filter = std::get_if<FilterOptions>(&options)) {
      filter->where = plan.Where(i, "predicate");
    }
    if (auto* vocabulary = std::get_if<augment::VocabularyOptions>(&options)) {
      const auto loaded = plan.vocabularies.find(vocabulary->file);
      if (loaded != plan.vocabularies.end()) vocabulary->loaded = loaded->second;
    }
    specs.push_back({stage.name(), plan.Where(i), std::move(options)});
  }
  return specs;
}

std::vector<readers::FeatureSpec>* MutableFeatures(OpOptions* options) {
  if (auto* parse = std::get_if<readers::ParseExampleOptions>(options)) return &parse->features;
  if (auto* parse = std::get_if<readers::ParseSequenceExampleOptions>(options)) {
    return &parse->features;
  }
  if (auto* parse = std::get_if<readers::ParseFieldsOptions>(options)) return &parse->features;
  return nullptr;
}

}  // namespace millrace::pipeline
