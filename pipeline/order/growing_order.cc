#include "pipeline/order/growing_order.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace millrace::pipeline {

namespace {

using Kind = OrderStep::Kind;

}  // namespace

uint64_t ElementsKnown(std::span<const OrderStep> steps, uint64_t records) {
  uint64_t known = records;
  bool is_all = false;  // a take has what it takes: it does not matter how the stream goes on
  for (const OrderStep& step : steps) {
    if (step.kind == Kind::kTake) {
      is_all = is_all || known >= step.count;
      known = std::min(known, step.count);
    } else if (step.kind == Kind::kSkip) {
      known -= std::min(known, step.count);
    } else if (step.kind == Kind::kShard) {
      known = known > step.second ? (known - step.second - 1) / step.count + 1 : 0;
    } else if (!is_all) {
      known = std::max(known / 2, known > step.count ? known - step.count : 0);
    }
  }
  return known;
}

uint64_t RecordsNeeded(std::span<const OrderStep> steps, uint64_t elements) {
  for (auto step = steps.rbegin(); step != steps.rend() && elements != 0; ++step) {
    if (step->kind == Kind::kTake) {
      elements = std::min(elements, step->count);
    } else if (step->kind == Kind::kSkip) {
      elements += step->count;
    } else if (step->kind == Kind::kShard) {
      elements = (elements - 1) * step->count + step->second + 1;
    } else {
      elements += std::min(elements, step->count);
    }
  }
  return elements;
}

absl::StatusOr<LeftOut> LeftOut::Make(const PhysicalPlan& plan, const RankSlice& slice) {
  LeftOut left_out(plan.batch.size, slice);
  const std::vector<OrderStep>& steps = plan.order.steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != Kind::kSkip && steps[i].kind != Kind::kShard) continue;
    MILLRACE_RETURN_IF_ERROR(left_out.AddSieve(plan, i, steps[i]));
  }
  if (!plan.cut.has_value() && slice.num_rows < plan.batch.size) {
    MILLRACE_RETURN_IF_ERROR(left_out.AddSieve(plan, steps.size(), std::nullopt));
  }
  return left_out;
}

absl::Status LeftOut::AddSieve(const PhysicalPlan& plan, size_t num_steps,
                               const std::optional<OrderStep>& step) {
  OrderPlan before = plan.order;
  before.steps.resize(num_steps);
  OrderSource source;
  source.num_records = kInfinite;
  MILLRACE_ASSIGN_OR_RETURN(Order order, Order::Make(before, {&source, 1}, plan.seed));
  OrderMemo memo(order);
  sieves_.push_back({.before = std::span(plan.order.steps).first(num_steps),
                     .step = step,
                     .order = std::move(order),
                     .memo = std::move(memo)});
  return absl::OkStatus();
}

bool LeftOut::Drops(const std::optional<OrderStep>& step, uint64_t element) const {
  if (!step.has_value()) {
    const uint64_t row = element % batch_size_;
    return row < slice_.first_row || row - slice_.first_row >= slice_.num_rows;
  }
  if (step->kind == Kind::kSkip) return element < step->count;
  return element % step->count != step->second;
}

std::vector<uint64_t> LeftOut::Advance(uint64_t records) {
  std::vector<uint64_t> left_out;
  std::vector<SampleId> places;
  for (Sieve& sieve : sieves_) {
    uint64_t end = ElementsKnown(sieve.before, records);
    if (sieve.step && sieve.step->kind == Kind::kSkip) end = std::min(end, sieve.step->count);
    places.clear();
    for (; sieve.next < end; ++sieve.next) {
      if (Drops(sieve.step, sieve.next)) places.push_back({.epoch = 0, .record = sieve.next});
    }
    sieve.order.Map(places, &sieve.memo);
    for (const SampleId& place : places) left_out.push_back(place.record);
  }
  return left_out;
}

}  // namespace millrace::pipeline
