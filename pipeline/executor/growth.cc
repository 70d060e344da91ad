#include "pipeline/executor/growth.h"

#include <utility>
#include <vector>

#include "base/status.h"

namespace millrace::pipeline {

absl::StatusOr<Growth::News> Growth::Look() {
  if (!may_grow()) return News::kNone;
  const bool ended = parts_.growing->ended();  // before the count, which then is final
  const uint64_t records = parts_.growing->available();
  if (ended) {
    OrderSource source;
    source.num_records = records;
    MILLRACE_ASSIGN_OR_RETURN(final_order_, BatchOrder::Make(parts_.plan, {&source, 1}));
    left_out_.reset();
    elements_ = final_order_->records().size();
    return News::kEnd;
  }
  if (records == records_) return News::kNone;
  records_ = records;
  elements_ = ElementsKnown(parts_.plan.order.steps, records);
  parts_.growing->Release(left_out_->Advance(records));
  return News::kElements;
}

bool Growth::Knows(uint64_t batch, bool wants) const {
  if (!may_grow()) return true;
  const BatchPlace place = parts_.order.Place(batch);
  const uint64_t elements = place.first_position + place.valid_rows;
  if (elements <= elements_) return true;
  if (wants) parts_.growing->Want(RecordsNeeded(parts_.plan.order.steps, elements));
  return false;
}

void Growth::Want(uint64_t position) const {
  parts_.growing->Want(RecordsNeeded(parts_.plan.order.steps, position + 1));
}

absl::Status Growth::EndStatus(bool came_so_far) const {
  if (!final_order_.has_value()) return absl::OkStatus();
  const bool all_taken = final_order_->records().size() == parts_.order.records().size();
  return all_taken || !came_so_far ? absl::OkStatus() : parts_.growing->status();
}

void ReleaseRecords(GrowingSource& source, std::span<const SampleId> ids) {
  std::vector<uint64_t> records;
  for (const SampleId& id : ids) records.push_back(id.record);
  source.Release(records);
}

void ReleaseRows(GrowingSource& source, const BatchData& batch) {
  std::vector<uint64_t> records;
  for (int64_t row = 0; row < batch.layout->num_rows; ++row) {
    if (batch.valid()[row] != 0) records.push_back(batch.ids()[row].record);
  }
  for (const DamagedSample& one : batch.damaged) records.push_back(one.id.record);
  source.Release(records);
}

void TellUses(GrowingSource& source, const ScanRun& run, const Examined& found) {
  auto row = found.rows.begin();
  for (int64_t i = 0; i < run.num_rows(); ++i) {
    uint64_t uses = 0;
    for (; row != found.rows.end() && row->origin.position == run.position_of(i); ++row) ++uses;
    if (uses != 1) source.SetUses(run.ids[static_cast<size_t>(i)].record, uses);
  }
}

}  // namespace millrace::pipeline
