#include "pipeline/cut/empty_stream.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "pipeline/order/order.h"

namespace millrace::pipeline {
namespace {

// Beyond these nothing is noticed: a round would take for ever, a bit per record too much memory.
constexpr uint64_t kMaxRound = uint64_t{1} << 48;
constexpr uint64_t kMaxRecords = uint64_t{1} << 27;

// True if a step draws, anywhere in the order.
bool Shuffles(const OrderPlan& order) {
  return std::ranges::any_of(order.inputs, Shuffles) ||
         std::ranges::any_of(order.steps, [](const OrderStep& step) {
           return step.kind == OrderStep::Kind::kShuffle ||
                  step.kind == OrderStep::Kind::kGlobalShuffle || step.shuffle_files;
         });
}

// True if every pass of the source gives the same records in the same order.
bool RepeatsItself(const OrderPlan& order) {
  return order.root == OrderPlan::Root::kSource && !Shuffles(order);
}

// True if an element of a zip is other records in another epoch.
bool ZipChanges(const PhysicalPlan& plan) {
  return plan.zip.has_value() &&
         std::ranges::any_of(plan.zip->inputs,
                             [](const ZipPlan::Input& input) { return Shuffles(input.order); });
}

// Positions of one lane after which its blocks begin at the same places of an epoch again; 0: too
// many.
uint64_t RoundOf(const PhysicalPlan& plan, uint64_t epoch_size) {
  const uint64_t block = LaneBlock(plan);
  uint64_t dealt = 0, round = 0;
  if (__builtin_mul_overflow(block, plan.lanes, &dealt)) return 0;
  const uint64_t blocks = epoch_size / std::gcd(epoch_size, dealt);
  return __builtin_mul_overflow(block, blocks, &round) || round > kMaxRound ? 0 : round;
}

}  // namespace

EmptyStreamWatch::EmptyStreamWatch(const PhysicalPlan& plan, bool endless, uint64_t epoch_size,
                                   uint64_t num_records)
    : num_lanes_(plan.lanes) {
  // Rows that are taken away by a take have passed the filters before it alone.
  const bool takes = std::ranges::find(plan.cut->settle, SettleStep::Kind::kTake,
                                       &SettleStep::kind) != plan.cut->settle.end();
  if (!endless || takes || plan.cut->may_vary || ZipChanges(plan)) return;
  if (epoch_size > 0 && RepeatsItself(plan.order)) {
    round_ = RoundOf(plan, epoch_size);
  } else if (num_records <= kMaxRecords) {
    unseen_records_ = num_records;
    seen_.resize(num_records);
  }
}

void EmptyStreamWatch::CameBy(uint64_t lane, uint64_t positions, uint64_t kept) {
  if (round_ == 0 || found()) return;
  uint64_t& idle = idle_[lane];
  idle = kept > 0 ? 0 : idle + positions;
  if (idle < round_) return;
  reason_ =
      absl::StrCat("the input repeats itself without end, and nothing of it passes the filters");
  if (num_lanes_ > 1) absl::StrAppend(&reason_, " in lane ", lane, " of ", num_lanes_);
}

void EmptyStreamWatch::LookedAt(std::span<const SampleId> ids, uint64_t kept) {
  if (unseen_records_ == 0 || found()) return;
  if (kept > 0) {
    unseen_records_ = 0;
    seen_ = {};
    return;
  }
  for (const SampleId& id : ids) {
    if (seen_[id.record]) continue;
    seen_[id.record] = true;
    --unseen_records_;
  }
  if (unseen_records_ > 0) return;
  reason_ = absl::StrCat("the input has no end, and none of its ", seen_.size(),
                         " records passes the filters");
}

}  // namespace millrace::pipeline
