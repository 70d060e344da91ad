#include "pipeline/plan/limits.h"
#include "pipeline/stages/convert.h"
#include "pipeline/stages/cut_ops.h"
#include "pipeline/stages/row.h"
#include "pipeline/stages/window_op.h"

// Cuts: stages that change how many samples there are by looking at them. And windows, which change
// it without.

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

void FillWindow(proto::Window* window) {
  if (!window->has_shift()) window->set_shift(window->size());
  if (!window->has_stride()) window->set_stride(1);
}

absl::Status CheckWindow(const OptionsChecker& check, const proto::Window& window) {
  MILLRACE_RETURN_IF_ERROR(check.InRange("size", window.size(), 1, kMaxWindow));
  MILLRACE_RETURN_IF_ERROR(check.InRange("shift", window.shift(), 1, kMaxWindowStep));
  return check.InRange("stride", window.stride(), 1, kMaxWindowStep);
}

OpOptions ToWindow(const proto::Window& window) { return WindowOptions{window.size()}; }

// Every field that there is.
OpFields FieldsOfWindow(const WindowOptions&) { return {{}, {}, {}, true}; }

absl::StatusOr<std::unique_ptr<Op>> MakeWindow(const WindowOptions& window) {
  return std::make_unique<WindowOp>(static_cast<int64_t>(window.size));
}

bool LeavesOutWindows(const Stage& stage) { return stage.window().drop_remainder(); }

constexpr OpRow kFilterOp = {.index = IndexOf<FilterOptions>(),
                             .fields = FieldsBy<FilterOptions, FieldsOfFilter>};
constexpr OpRow kUnbatchOp = {.index = IndexOf<UnbatchOptions>(),
                              .fields = FieldsBy<UnbatchOptions, FieldsOfUnbatch>,
                              .make = MakeBy<UnbatchOptions, MakeUnbatch>};
constexpr OpRow kWindowOp = {.index = IndexOf<WindowOptions>(),
                             .fields = FieldsBy<WindowOptions, FieldsOfWindow>,
                             .make = MakeBy<WindowOptions, MakeWindow>};

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
    {.op_case = Stage::kWindow,
     .name = "window",
     .kind = StageKind::kWindow,
     .doc = "Samples of `size` elements of what comes before it, tf.data's windows made tensors: "
            "every field has a first extent of `size`.",
     .options = {{"size", "elements of a window, at most 2^20", kRequired},
                 {"shift", "elements from the first of a window to the first of the next",
                  "`size`"},
                 {"stride", "elements from one of a window to its next"},
                 {"drop_remainder",
                  "leave out the last windows if they are not full; without it every window has to "
                  "be"}},
     .fill = Fill<&Stage::mutable_window, FillWindow>,
     .check = Check<&Stage::window, CheckWindow>,
     .read = Read<&Stage::window, ToWindow>,
     .op = &kWindowOp,
     .skips_records = LeavesOutWindows},
};

}  // namespace

constinit const StageFamily kCutStages = {"cuts", "Cuts", kCutRows};

}  // namespace millrace::pipeline
