#include "pipeline/stages/table.h"

#include <algorithm>
#include <array>

#include "pipeline/stages/joined_ops.h"

namespace millrace::pipeline {
namespace {

constexpr const StageFamily* kFamilies[] = {
    &kFileStages,     &kSourceStages, &kOrderStages,   &kParseStages,  &kDecodeStages,
    &kGeometryStages, &kColorStages,  &kDistortStages, &kLayoutStages, &kTokenStages,
    &kNumberStages,   &kOtherStages,  &kCutStages,     &kBatchStages,  &kMixupStages,
};

// The first row that `is` holds for; null: none.
template <typename Is>
const StageRow* FirstRow(const Is& is) {
  for (const StageFamily* family : kFamilies) {
    const auto row = std::ranges::find_if(family->rows, is);
    if (row != family->rows.end()) return &*row;
  }
  return nullptr;
}

// The row of the first stage whose op has such options; null: an op that the optimizer joins.
const StageRow* StageOf(const OpOptions& options) {
  return FirstRow(
      [&](const StageRow& row) { return row.op != nullptr && row.op->index == options.index(); });
}

}  // namespace

std::span<const StageFamily* const> StageFamilies() { return kFamilies; }

const StageRow& RowOf(const proto::Stage& stage) {
  // The row of a stage that has none, which stage_table_test rules out.
  static constexpr StageRow kNone;
  const auto* row = FirstRow([&](const StageRow& r) { return r.op_case == stage.op_case(); });
  return row == nullptr ? kNone : *row;
}

const StageRow* FindRow(std::string_view name) {
  return FirstRow([&](const StageRow& row) { return row.name == name; });
}

std::vector<uint64_t> BatchSizesOf(const proto::Stage& stage) {
  BatchSpec spec;
  RowOf(stage).batch(stage, &spec);
  if (spec.bucket_sizes.empty()) return {spec.size};
  return spec.bucket_sizes;
}

const OpRow& RowOf(const OpOptions& options) {
  const StageRow* const stage = StageOf(options);
  return stage == nullptr ? JoinedRowOf(options) : *stage->op;
}

OpFields FieldsOf(const OpOptions& options) { return RowOf(options).fields(options); }

std::string OpName(const OpOptions& options) {
  const OpRow& row = RowOf(options);
  return row.name == nullptr ? StageOf(options)->name : row.name(options);
}

bool DrawsAtRandom(const OpOptions& options) {
  const OpRow& row = RowOf(options);
  return row.part == nullptr ? row.draws : DrawsAtRandom(row.part(options));
}

absl::StatusOr<std::unique_ptr<Op>> MakeBuiltinOp(const OpSpec& spec) {
  const OpRow& row = RowOf(spec.options);
  // REQUIRES of OpFactory.
  if (row.make == nullptr) return absl::InternalError("not an op of the program");
  return row.make(spec.options, spec.stage);
}

}  // namespace millrace::pipeline
