#include "pipeline/cut/examiner.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "pipeline/stages/apply_caught.h"
#include "pipeline/stages/cut_ops.h"

// A filter must spare the later ops the rows that it drops, and an op has no notion of a row that
// is fine but not wanted. So behind a filter the rest of the steps runs on a new run of the rows
// that are left: pointers and shapes are copied, a few words a value, never a payload. An unbatch
// does the same with rows that occur once for each element, in blocks, so that a record of a
// million elements does not make a run of a million rows.

namespace millrace::pipeline {
namespace {

constexpr size_t kMaxBlockRows = 4096;  // the rows of a run made by unbatch

// A row of the run being worked on.
struct Place {
  int64_t origin = 0;  // its record's row in the source's run
  uint64_t sub_index = 0;
  int32_t error = -1;
};

// One call of Examine.
class Examination {
 public:
  Examination(const CutPlan& plan, std::span<const int> extent_ranks, size_t extents_per_row,
              int first_settled_filter, const Run& source, std::span<const uint64_t> positions,
              Examined* found)
      : plan_(plan),
        extent_ranks_(extent_ranks),
        extents_per_row_(extents_per_row),
        first_settled_filter_(first_settled_filter),
        source_(source),
        positions_(positions),
        found_(*found) {}

  void Examine(Run& run) {
    std::vector<Place> places(static_cast<size_t>(run.num_rows()));
    for (size_t i = 0; i < places.size(); ++i) places[i].origin = static_cast<int64_t>(i);
    rows_.reserve(places.size());
    NoteErrors(run, "source", places);
    Continue(0, 0, run, std::move(places));
    Append();
  }

 private:
  struct Row {
    Place place;
    int passed_filters = 0;
    size_t extents = 0;  // where they begin in extents_
  };

  // Steps from `step` on; the rows have passed so many filters.
  void Continue(size_t step, int passed, Run& run, std::vector<Place> places) {
    for (; step < plan_.examine.size(); ++step) {
      const ExamineStep& at = plan_.examine[step];
      if (at.kind == ExamineStep::Kind::kFilter) return Filter(step, passed, run, places);
      if (at.kind == ExamineStep::Kind::kUnbatch) return Unbatch(step, passed, run, places);
      ApplyAlone(*at.op.op, run);
      NoteErrors(run, at.stage, places);
    }
    Finish(run, places);
  }

  void Filter(size_t step, int passed, Run& run, std::vector<Place>& places) {
    const ExamineStep& at = plan_.examine[step];
    std::vector<uint8_t> keep(places.size(), 0);
    at.filter->Evaluate(run, keep);
    NoteErrors(run, at.stage, places);
    if (step + 1 == plan_.examine.size() && extents_per_row_ == 0) {
      return EmitFiltered(passed, keep, places);
    }
    std::vector<int64_t> rows;
    std::vector<Place> kept;
    rows.reserve(places.size());
    kept.reserve(places.size());
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].error >= 0) {
        Emit(places[i], plan_.num_filters);
      } else if (keep[i] != 0) {
        rows.push_back(static_cast<int64_t>(i));
        kept.push_back(places[i]);
      } else if (passed >= first_settled_filter_) {
        Emit(places[i], passed);
      }
    }
    if (rows.empty()) return;
    if (rows.size() == places.size()) {
      Continue(step + 1, passed + 1, run, std::move(kept));
    } else {
      Run selected = run.Select(rows, IdsOf(kept));
      Continue(step + 1, passed + 1, selected, std::move(kept));
    }
  }

  // The rows that a filter without any step behind it leaves.
  void EmitFiltered(int passed, const std::vector<uint8_t>& keep,
                    const std::vector<Place>& places) {
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].error >= 0 || keep[i] != 0) {
        Emit(places[i], plan_.num_filters);
      } else if (passed >= first_settled_filter_) {
        Emit(places[i], passed);
      }
    }
  }

  void Unbatch(size_t step, int passed, Run& run, std::vector<Place>& places) {
    const ExamineStep& at = plan_.examine[step];
    std::vector<int64_t> counts(places.size(), 0);
    for (size_t i = 0; i < places.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      if (!run.ok(row)) continue;
      const absl::StatusOr<int64_t> count = CountElements(run, row, at.split);
      if (count.ok()) counts[i] = *count;
      if (!count.ok()) run.Fail(row, count.status());
    }
    NoteErrors(run, at.stage, places);
    std::vector<int64_t> rows;
    std::vector<Place> parts;
    const auto flush = [&] {
      if (rows.empty()) return;
      Run block = run.Select(rows, IdsOf(parts));
      TakeElements(block, at.split);
      Continue(step + 1, passed, block, std::exchange(parts, {}));
      rows.clear();
    };
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].error >= 0) Emit(places[i], plan_.num_filters);
      for (int64_t element = 0; element < counts[i]; ++element) {
        rows.push_back(static_cast<int64_t>(i));
        parts.push_back({places[i].origin, static_cast<uint64_t>(element), -1});
        if (rows.size() == kMaxBlockRows) flush();
      }
    }
    flush();
  }

  // Rows that are left when all steps are done.
  void Finish(Run& run, std::vector<Place>& places) {
    const size_t before = extents_.size();
    extents_.resize(before + places.size() * extents_per_row_);
    int64_t* out = extents_.data() + before;
    for (size_t i = 0; i < places.size(); ++i, out += extents_per_row_) {
      if (places[i].error < 0) WriteExtents(run, static_cast<int64_t>(i), out);
    }
    NoteErrors(run, "batch", places);
    for (size_t i = 0; i < places.size(); ++i) {
      Emit(places[i], plan_.num_filters);
      if (places[i].error < 0) rows_.back().extents = before + i * extents_per_row_;
    }
  }

  void WriteExtents(Run& run, int64_t row, int64_t* out) const {
    for (size_t i = 0; i < plan_.extents_of.size(); ++i) {
      const Column* column = run.Find(plan_.extents_of[i]);
      const bool there = column != nullptr && column->at(row).data != nullptr;
      if (!there || column->at(row).shape.rank() != extent_ranks_[i]) {
        run.Fail(row, absl::InternalError(absl::StrCat("no stage stored field \"",
                                                       plan_.extents_of[i], "\" as declared")));
        return;
      }
      const Shape shape = column->at(row).shape;
      out = std::ranges::copy(shape.extents(), out).out;
    }
    if (!plan_.value_of.empty()) WriteValue(run, row, out);
  }

  void WriteValue(Run& run, int64_t row, int64_t* out) const {
    const Column* column = run.Find(plan_.value_of);
    const ConstTensorView value = column == nullptr ? ConstTensorView() : column->at(row);
    if (value.data == nullptr || value.shape.rank() != 0) {
      run.Fail(row, absl::InternalError(absl::StrCat("no stage stored field \"", plan_.value_of,
                                                     "\" as declared")));
    } else if (value.dtype == DType::kI64) {
      *out = value.as<int64_t>()[0];
    } else if (value.dtype == DType::kI32) {
      *out = value.as<int32_t>()[0];
    } else {
      *out = value.as<uint8_t>()[0];
    }
  }

  std::vector<SampleId> IdsOf(std::span<const Place> places) const {
    std::vector<SampleId> ids;
    ids.reserve(places.size());
    for (const Place& place : places) ids.push_back(OriginOf(place).id);
    return ids;
  }

  RowOrigin OriginOf(const Place& place) const {
    RowOrigin origin;
    origin.id = source_.id(place.origin);
    origin.id.sub_index = place.sub_index;
    origin.position = positions_.empty() ? source_.position(place.origin)
                                         : positions_[static_cast<size_t>(place.origin)];
    return origin;
  }

  // Takes over the rows that have failed since the last call.
  void NoteErrors(const Run& run, std::string_view stage, std::vector<Place>& places) {
    if (run.all_ok()) return;
    for (size_t i = 0; i < places.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      if (run.ok(row) || places[i].error >= 0) continue;
      places[i].error = static_cast<int32_t>(found_.errors.size());
      RecordError error = GetRecordError(run.status(row)).value_or(RecordError());
      error.position = -1;  // the position in the stream is not known here
      absl::Status status =
          Annotate(run.status(row), ToStd(absl::StrCat("stage \"", ToAbsl(stage), "\"")));
      SetRecordError(status, error);
      found_.errors.push_back(std::move(status));
    }
  }

  void Emit(const Place& place, int passed_filters) {
    rows_.push_back({place, passed_filters, kNoExtents});
  }

  // Rows left out of later steps come before those that went on: puts all into order.
  void Append() {
    const auto key = [](const Row& row) {
      return std::tuple(row.place.origin, row.place.sub_index);
    };
    if (!std::ranges::is_sorted(rows_, {}, key)) std::ranges::sort(rows_, {}, key);
    found_.rows.reserve(found_.rows.size() + rows_.size());
    found_.extents.reserve(found_.extents.size() + rows_.size() * extents_per_row_);
    for (const Row& row : rows_) {
      found_.rows.push_back({OriginOf(row.place), row.passed_filters, row.place.error});
      const size_t end = found_.extents.size();
      found_.extents.resize(end + extents_per_row_);
      if (row.extents == kNoExtents) continue;
      std::copy_n(extents_.begin() + static_cast<ptrdiff_t>(row.extents), extents_per_row_,
                  found_.extents.begin() + static_cast<ptrdiff_t>(end));
    }
  }

  static constexpr size_t kNoExtents = ~size_t{0};

  const CutPlan& plan_;
  const std::span<const int> extent_ranks_;
  const size_t extents_per_row_;
  const int first_settled_filter_;
  const Run& source_;                          // the whole run; others are made from its rows
  const std::span<const uint64_t> positions_;  // empty: those of source_
  Examined& found_;
  std::vector<Row> rows_;
  std::vector<int64_t> extents_;
};

}  // namespace

Examiner::Examiner(const PhysicalPlan& plan) : plan_(*plan.cut) {
  for (const std::string& name : plan_.extents_of) {
    const Field* field = plan.batch_schema.Find(name);
    assert(field != nullptr);
    extent_ranks_.push_back(field->shape.rank());
  }
  extents_per_row_ = std::accumulate(extent_ranks_.begin(), extent_ranks_.end(),
                                     plan_.value_of.empty() ? size_t{0} : size_t{1});
  first_settled_filter_ = plan_.num_filters;
  for (const SettleStep& step : plan_.settle) {
    first_settled_filter_ = std::min(first_settled_filter_, step.after_filters);
  }
}

void Examiner::Examine(Run& run, std::span<const uint64_t> positions, Examined* found) const {
  assert(positions.empty() || static_cast<int64_t>(positions.size()) == run.num_rows());
  Examination(plan_, extent_ranks_, extents_per_row_, first_settled_filter_, run, positions, found)
      .Examine(run);
}

}  // namespace millrace::pipeline
