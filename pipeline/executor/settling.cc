#include "pipeline/executor/settling.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/order/order.h"

namespace millrace::pipeline {
namespace {

// True if the settler counts the lanes of other ranks. Ranks that have the lanes of a token alone
// take and give tokens of their own where the input has no end.
bool CountsLanes(const ExecutorParts& parts) {
  const bool endless = parts.order.records().size() == kInfinite;
  const bool own_tokens = endless && parts.plan.token_lanes == 0;
  return LanesAreFree(parts.plan) && parts.world > 1 && !own_tokens;
}

ClosedBatches TakeClosed(const ExecutorParts& parts, size_t room, MemoryBudget& budget,
                         Settler& settler) {
  ClosedBatches closed;
  closed.more = true;
  while (closed.batches.size() < room && (closed.batches.empty() || budget.Fits(0))) {
    std::optional<ClosedBatch> batch = settler.Take();
    if (!batch.has_value()) {
      closed.more = false;
      break;
    }
    auto work = std::make_unique<ClosedWork>(*std::move(batch), budget);
    if (parts.plan.batch.kind == BatchSpec::Kind::kFixed) {
      work->layout = parts.layout;
    } else if (auto layout = MakeClosedLayout(parts.plan, work->batch); layout.ok()) {
      work->layout = std::make_shared<const BatchLayout>(*std::move(layout));
    } else {
      work->layout_error =
          Annotate(layout.status(), ToStd(absl::StrCat("stage \"", parts.plan.batch.stage, "\"")));
    }
    closed.batches.push_back(std::move(work));
  }
  return closed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Settler>> MakeSettler(const ExecutorParts& parts,
                                                     size_t extents_per_row,
                                                     const std::string& state) {
  SettlerOptions options;
  options.rank = parts.rank;
  options.world = parts.world;
  options.num_lanes = parts.plan.lanes;
  options.seed = parts.plan.seed;
  options.extents_per_row = extents_per_row;
  const uint64_t elements = parts.order.records().size();
  options.lane_sizes = LaneSizes(parts.plan, elements);
  options.grows = parts.growing != nullptr;
  options.endless = elements == kInfinite && !options.grows;
  const uint64_t token_lanes = parts.plan.token_lanes;
  options.counts = CountsLanes(parts);
  options.token_lanes = token_lanes == 0 ? parts.plan.lanes : token_lanes;
  if (options.counts) {
    const auto memo = std::make_shared<OrderMemo>(parts.order.records());
    options.epoch_of = [&parts, memo](uint64_t lane, uint64_t position) {
      SampleId id;
      LaneOrder(parts.order.records(), lane, parts.plan.lanes, LaneBlock(parts.plan))
          .Fill(position, {&id, 1}, memo.get());
      return id.epoch;
    };
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Settler> settler,
                            Settler::Make(parts.plan, std::move(options)));
  if (!state.empty()) MILLRACE_RETURN_IF_ERROR(settler->Restore(state));
  return settler;
}

uint64_t SettlingBytes(const ExecutorParts& parts, size_t extents_per_row) {
  const Order& records = parts.order.records();
  // Rank 0 has the first rows of every batch, and looks at them.
  const bool asks_for_epochs = parts.rank > 0 && CountsLanes(parts);
  return SettlerBytes(parts.plan, extents_per_row, records.size()) +
         (asks_for_epochs ? records.MemoBytes() : 0);
}

std::vector<uint64_t> LaneEnds(const ExecutorParts& parts) {
  uint64_t passes = 1;
  for (const OrderStep& step : parts.plan.batch_order) {
    if (step.kind != OrderStep::Kind::kRepeat) continue;
    if (step.count == 0 || __builtin_mul_overflow(passes, step.count, &passes)) passes = kMaxCount;
  }
  // A source that grows has no size yet; PassOne::SetEnds gives it.
  const uint64_t elements = parts.growing != nullptr ? 0 : parts.order.records().size();
  std::vector<uint64_t> ends = LaneSizes(parts.plan, elements);
  for (uint64_t& end : ends) {
    const bool huge = __builtin_mul_overflow(end, passes, &end) || end >= kMaxCount;
    if (huge) end = kInfinite;
  }
  return ends;
}

absl::StatusOr<ClosedBatches> Settle(const ExecutorParts& parts, uint64_t elements,
                                     MemoryBudget& budget, PassOne::Turn& turn) {
  Settler& settler = *turn.settler;
  for (const Examined& rows : turn.heads.reopened) {
    MILLRACE_RETURN_IF_ERROR(settler.Reopen(rows.lane, rows));
  }
  for (Examined& found : turn.heads.found) {
    if (!settler.ended()) settler.Settle(std::move(found));
  }
  if (turn.end_is_due) settler.EndInput(LaneSizes(parts.plan, elements));
  ClosedBatches closed = TakeClosed(parts, turn.room, budget, settler);
  if (parts.growing != nullptr) parts.growing->Release(settler.TakeDropped());
  return closed;
}

}  // namespace millrace::pipeline
