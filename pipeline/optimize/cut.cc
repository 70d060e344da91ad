#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "pipeline/optimize/optimizer.h"

// Pass 1 of a plan with a cut.
//
// A filter wants a label; it does not want the image decoded that it is about to drop. So pass 1 is
// not "the ops before the filter" but a slice of the plan: walking back from each predicate, split
// field and unknown extent, an op is taken along if it writes a field that is wanted, and from
// there on its inputs are wanted instead. An op that parses records shrinks to the features that
// are wanted. Pass 2 runs all ops again, for the rows that are left.

namespace millrace::pipeline {
namespace {

using Names = std::set<std::string>;
// The fields that pass 1 wants of each op, by the number of its spec: of those that it writes, the
// ones that are used.
using Wanted = std::map<size_t, Names>;

// Walks back from specs[end] for `fields`. An op whose fields are not known may write any of them
// and read everything.
Wanted WantedFor(const std::vector<OpSpec>& specs, const std::vector<Schema>& before, size_t end,
                 Names fields) {
  Wanted wanted;
  for (size_t i = end; i-- > 0 && !fields.empty();) {
    const OpSpec& spec = specs[i];
    if (spec.is_filter() || std::holds_alternative<UnbatchOptions>(spec.options)) continue;
    const OpFields touched = FieldsOf(spec.options);
    if (touched.any) {
      wanted[i] = fields;
      for (const Field& field : before[i].fields()) fields.insert(field.name);
      continue;
    }
    Names used;
    for (const std::string& name : touched.writes) {
      if (fields.erase(name) > 0) used.insert(name);
    }
    if (used.empty()) continue;
    wanted[i] = std::move(used);
    fields.insert(touched.reads.begin(), touched.reads.end());
  }
  return wanted;
}

// "examine: filter "keep" needs parse_example(label)"
std::string RuleLine(const std::string& what, const std::vector<OpSpec>& specs,
                     const Wanted& wanted) {
  std::vector<std::string> ops;
  for (const auto& [i, names] : wanted) {
    ops.push_back(absl::StrCat(OpName(specs[i].options), "(", absl::StrJoin(names, ", "), ")"));
  }
  return absl::StrCat("examine: ", what, " needs ",
                      ops.empty() ? "no op" : absl::StrJoin(ops, ", "));
}

// The fields that all decisions of pass 1 want; a line for each decision goes to `rules`.
Wanted CollectWanted(const std::vector<OpSpec>& specs, const std::vector<Schema>& before,
                     const CutPlan& cut, std::vector<std::string>* rules) {
  Wanted all;
  const auto add = [&](const std::string& what, size_t end,
                       const std::vector<std::string>& fields) {
    const Wanted wanted = WantedFor(specs, before, end, Names(fields.begin(), fields.end()));
    rules->push_back(RuleLine(what, specs, wanted));
    for (const auto& [i, names] : wanted) all[i].insert(names.begin(), names.end());
  };
  for (size_t i = 0; i < specs.size(); ++i) {
    if (const auto* filter = std::get_if<FilterOptions>(&specs[i].options)) {
      add(absl::StrCat("filter \"", specs[i].stage, "\""), i, filter->predicate->fields());
    } else if (const auto* unbatch = std::get_if<UnbatchOptions>(&specs[i].options)) {
      add(absl::StrCat("unbatch \"", specs[i].stage, "\""), i, unbatch->fields);
    }
  }
  if (!cut.extents_of.empty()) {
    add(absl::StrCat("extents of ", absl::StrJoin(cut.extents_of, ", ")), specs.size(),
        cut.extents_of);
  }
  if (!cut.value_of.empty()) {
    add(absl::StrCat("the value of ", cut.value_of), specs.size(), {cut.value_of});
  }
  return all;
}

// The spec without the features that are not wanted.
OpSpec Shrunk(const OpSpec& spec, const Names& wanted) {
  OpSpec shrunk = spec;
  if (auto* features = MutableFeatures(&shrunk.options)) {
    std::erase_if(*features, [&](const readers::FeatureSpec& feature) {
      return !wanted.contains(feature.name);
    });
  }
  return shrunk;
}

// True if the op may make something else of a record in another epoch.
bool MayVary(const OpOptions& options) {
  return DrawsAtRandom(options) || std::holds_alternative<CustomOptions>(options);
}

absl::StatusOr<ExamineStep> MakeStep(const OpSpec& spec, const OpMaker& maker, Schema* schema) {
  ExamineStep step;
  step.stage = spec.stage;
  const auto* filter = std::get_if<FilterOptions>(&spec.options);
  if (filter != nullptr && !filter->materialize) {
    step.kind = ExamineStep::Kind::kFilter;
    step.filter = filter->predicate;
    const absl::Status status = step.filter->Resolve(*schema);
    if (!status.ok()) return AtStage(filter->where, spec.stage, status);
    return step;
  }
  if (const auto* unbatch = std::get_if<UnbatchOptions>(&spec.options)) {
    step.kind = ExamineStep::Kind::kUnbatch;
    step.split = unbatch->fields;
  }
  // An unbatch becomes the op of pass 2 too, for the schema behind it.
  MILLRACE_ASSIGN_OR_RETURN(PhysicalOp op, maker.Make(spec, schema));
  if (step.kind == ExamineStep::Kind::kOp) step.op = std::move(op);
  return step;
}

}  // namespace

std::vector<OpSpec> SpecsOfExamine(const std::vector<OpSpec>& specs,
                                   const std::vector<Schema>& before, const CutPlan& cut,
                                   std::vector<std::string>* rules) {
  const Wanted wanted = CollectWanted(specs, before, cut, rules);
  std::vector<OpSpec> examine;
  for (size_t i = 0; i < specs.size(); ++i) {
    const bool is_cut =
        specs[i].is_filter() || std::holds_alternative<UnbatchOptions>(specs[i].options);
    const auto entry = wanted.find(i);
    if (!is_cut && entry == wanted.end()) continue;
    examine.push_back(is_cut ? specs[i] : Shrunk(specs[i], entry->second));
  }
  return examine;
}

absl::Status FillExamine(const std::vector<OpSpec>& specs, const std::vector<Schema>& before,
                         const OpMaker& maker, PhysicalPlan* plan) {
  Schema schema = before.front();
  for (const OpSpec& spec : SpecsOfExamine(specs, before, *plan->cut, &plan->rules)) {
    MILLRACE_ASSIGN_OR_RETURN(ExamineStep step, MakeStep(spec, maker, &schema));
    plan->cut->examine.push_back(std::move(step));
    plan->cut->may_vary |= MayVary(spec.options);
  }
  return absl::OkStatus();
}

}  // namespace millrace::pipeline
