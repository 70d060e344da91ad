#include "pipeline/stages/convert.h"
#include "pipeline/stages/cut_ops.h"
#include "pipeline/stages/row.h"

// Cuts: stages that change how many samples there are by looking at them.

namespace millrace::pipeline {
namespace {

using proto::Stage;

absl::Status CheckFilter(const OptionsChecker& check, const proto::Filter& filter) {
  if (filter.predicate().empty()) {
    return check.Error("predicate", " is empty; say what is kept (\"label < 10\")");
  }
  return absl::OkStatus();
}

OpOptions ToFilter(const proto::Filter& filter) {
  return FilterOptions{"", filter.predicate(), std::nullopt, filter.materialize()};
}

OpFields FieldsOfFilter(const FilterOptions& filter) {
  return {filter.predicate->fields(), {}, {}, false};
}

// A materialized filter has looked at all records before the first batch.
bool CountsByFilter(const Stage& stage) { return !stage.filter().materialize(); }

absl::Status CheckUnbatch(const OptionsChecker& check, const proto::Unbatch& unbatch) {
  return check.AreDistinct(unbatch.field());
}

OpOptions ToUnbatch(const proto::Unbatch& unbatch) {
  return UnbatchOptions{ToVector(unbatch.field())};
}

OpFields FieldsOfUnbatch(const UnbatchOptions& unbatch) {
  return {unbatch.fields, unbatch.fields, {}, unbatch.fields.empty()};
}

absl::StatusOr<std::unique_ptr<Op>> MakeUnbatch(const UnbatchOptions& unbatch) {
  return MakeUnbatchSlice(unbatch.fields);
}

constexpr OpRow kFilterOp = {.index = IndexOf<FilterOptions>(),
                             .fields = FieldsBy<FilterOptions, FieldsOfFilter>};
constexpr OpRow kUnbatchOp = {.index = IndexOf<UnbatchOptions>(),
                              .fields = FieldsBy<UnbatchOptions, FieldsOfUnbatch>,
                              .make = MakeBy<UnbatchOptions, MakeUnbatch>};

constexpr StageRow kCutRows[] = {
    {.op_case = Stage::kFilter,
     .name = "filter",
     .kind = StageKind::kCut,
     .doc = "The samples for which a predicate holds ([predicates](predicates.md)).",
     .options = {{"predicate", R"(`"label in (1, 2) and score >= 0.5"`)", kRequired},
                 {"materialize",
                  "find the outcome out once and keep it beside the index; then it is no cut"}},
     .check = Check<&Stage::filter, CheckFilter>,
     .read = Read<&Stage::filter, ToFilter>,
     .op = &kFilterOp,
     .skips_records = Always,
     .counts_by_records = CountsByFilter},
    {.op_case = Stage::kUnbatch,
     .name = "unbatch",
     .kind = StageKind::kCut,
     .doc = "Samples split along the first extent of their fields.",
     .options = {{"field", "fields that are split; all others are repeated", "all fields"}},
     .check = Check<&Stage::unbatch, CheckUnbatch>,
     .read = Read<&Stage::unbatch, ToUnbatch>,
     .op = &kUnbatchOp,
     .skips_records = Always,
     .counts_by_records = Always},
};

}  // namespace

constinit const StageFamily kCutStages = {"cuts", "Cuts", kCutRows};

}  // namespace millrace::pipeline
