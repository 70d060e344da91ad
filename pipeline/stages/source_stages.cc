#include <cmath>

#include "pipeline/plan/limits.h"
#include "pipeline/stages/row.h"

// Sources without files, and sources that join those of other pipelines.

namespace millrace::pipeline {
namespace {

using proto::Stage;

absl::Status CheckRange(const OptionsChecker& check, const proto::Range& range) {
  return check.InRange("count", range.count(), 1, kMaxCount - 1);
}

void ToRange(const proto::Range& range, SourceSpec* source) {
  source->kind = SourceSpec::Kind::kRange;
  source->count = range.count();
}

void ToPush(const proto::Push&, SourceSpec* source) { source->kind = SourceSpec::Kind::kPush; }

void ToMemory(const proto::Memory&, SourceSpec* source) {
  source->kind = SourceSpec::Kind::kMemory;
}

void FillMix(proto::Mix* mix) {
  if (!mix->weight().empty()) return;
  for (int i = 0; i < mix->input_size(); ++i) mix->add_weight(1);
}

template <typename Join>
absl::Status HasInputs(const OptionsChecker& check, const Join& join) {
  return join.input_size() > 0 ? absl::OkStatus()
                               : check.Error("input", ": none given; name at least one");
}

absl::Status CheckMix(const OptionsChecker& check, const proto::Mix& mix) {
  MILLRACE_RETURN_IF_ERROR(HasInputs(check, mix));
  if (mix.weight_size() != mix.input_size()) {
    return check.Error("weight", absl::StrCat(" has ", mix.weight_size(), " numbers for ",
                                              mix.input_size(), " inputs"));
  }
  for (int i = 0; i < mix.weight_size(); ++i) {
    if (!(mix.weight(i) > 0) || !std::isfinite(mix.weight(i))) {
      return check.Error("weight", " must be > 0 and finite", i);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckZip(const OptionsChecker& check, const proto::Zip& zip) {
  MILLRACE_RETURN_IF_ERROR(HasInputs(check, zip));
  if (zip.field_size() != zip.input_size()) {
    return check.Error("field",
                       absl::StrCat(" names ", zip.field_size(), " fields for ", zip.input_size(),
                                    " inputs; each input's samples need one"));
  }
  return check.AreDistinct(zip.field());
}

constexpr StageRow kSourceRows[] = {
    {.op_case = Stage::kMemory,
     .name = "memory",
     .kind = StageKind::kSource,
     .doc = "Records that the host program has in memory: `OpenOptions.memory`, under the stage's "
            "name.",
     .source = To<&Stage::memory, ToMemory>},
    {.op_case = Stage::kRange,
     .name = "range",
     .kind = StageKind::kSource,
     .doc = "The numbers 0, 1, ... count - 1, as the int64 field `value`.",
     .options = {{"count", "", kRequired}},
     .check = Check<&Stage::range, CheckRange>,
     .source = To<&Stage::range, ToRange>},
    {.op_case = Stage::kPush,
     .name = "push",
     .kind = StageKind::kSource,
     .doc = "Records that the host program feeds, once: no `repeat`, `global_shuffle` or "
            "materialized filter may follow, and no order stage behind the batch.",
     .source = To<&Stage::push, ToPush>,
     .skips_records = Always,
     .counts_by_records = Always},
    {.op_case = Stage::kConcatenate,
     .name = "concatenate",
     .kind = StageKind::kSource,
     .doc = "All elements of the first input, then all of the second, ...",
     .options = {{"input", "pipelines of a source and order stages", kRequired}},
     .check = Check<&Stage::concatenate, HasInputs<proto::Concatenate>>,
     .skips_records = Always},
    {.op_case = Stage::kMix,
     .name = "mix",
     .kind = StageKind::kSource,
     .doc = "Elements of the inputs in shares by weight; ends when an input is exhausted whose "
            "turn it is.",
     .options = {{"input", "pipelines of a source and order stages", kRequired},
                 {"weight", "one per input, > 0", "1 each"}},
     .fill = Fill<&Stage::mutable_mix, FillMix>,
     .check = Check<&Stage::mix, CheckMix>,
     .skips_records = Always},
    {.op_case = Stage::kZip,
     .name = "zip",
     .kind = StageKind::kSource,
     .doc = "Element i of all inputs side by side; ends with the shortest.",
     .options = {{"input", "pipelines of a source and order stages", kRequired},
                 {"field", "one per input, of its records (bytes) or numbers (int64)", kRequired}},
     .check = Check<&Stage::zip, CheckZip>},
};

}  // namespace

constinit const StageFamily kSourceStages = {"sources", "Other sources", kSourceRows};

}  // namespace millrace::pipeline
