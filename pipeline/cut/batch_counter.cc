#include "pipeline/cut/batch_counter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::pipeline {

using Kind = OrderStep::Kind;

absl::StatusOr<BatchCounter> BatchCounter::Make(std::span<const OrderStep> steps) {
  BatchCounter counter;
  for (const OrderStep& step : steps) {
    if (step.kind != Kind::kRepeat && step.kind != Kind::kTake && step.kind != Kind::kSkip) {
      return absl::InvalidArgumentError(absl::StrCat(
          "stage \"", step.stage, "\": only repeat, take and skip may follow the batch stage"));
    }
    counter.steps_.push_back({step.kind, step.count});
  }
  return counter;
}

bool BatchCounter::NextIsDelivered() const {
  return std::ranges::none_of(
      steps_, [](const Step& s) { return s.kind == Kind::kSkip && s.count < s.limit; });
}

BatchCounter::After BatchCounter::OnBatch() {
  for (Step& step : steps_) {
    if (step.kind == Kind::kRepeat) {
      step.gave = true;
    } else if (step.kind == Kind::kTake) {
      ++step.count;
    } else if (step.count < step.limit) {
      ++step.count;
      break;
    }
  }
  return AfterTakes();
}

// A take that has all it wants ends for the steps outside of it; the outermost decides.
BatchCounter::After BatchCounter::AfterTakes() {
  for (size_t i = steps_.size(); i-- > 0;) {
    if (steps_[i].kind == Kind::kTake && steps_[i].count >= steps_[i].limit) return AfterEnd(i + 1);
  }
  return After::kGoOn;
}

// The input of step `step` has ended. A repeat that got nothing from a whole pass ends too:
// the next pass would give nothing either, for ever.
BatchCounter::After BatchCounter::AfterEnd(size_t step) {
  for (size_t i = step; i < steps_.size(); ++i) {
    Step& repeat = steps_[i];
    if (repeat.kind != Kind::kRepeat || !repeat.gave) continue;
    if (repeat.limit != 0 && repeat.count + 1 >= repeat.limit) continue;
    ++repeat.count;
    repeat.gave = false;
    for (size_t inner = 0; inner < i; ++inner) {
      steps_[inner].count = 0;
      steps_[inner].gave = false;
    }
    const After after = AfterTakes();
    return after == After::kGoOn ? After::kNewPass : after;
  }
  return After::kEnd;
}

bool BatchCounter::MayPassAgain() const {
  return std::ranges::any_of(steps_, [](const Step& step) {
    return step.kind == Kind::kRepeat && (step.limit == 0 || step.count + 1 < step.limit);
  });
}

void BatchCounter::Write(StateWriter& writer) const {
  for (const Step& step : steps_) {
    writer.Number(step.count);
    if (step.kind == Kind::kRepeat) writer.Number(step.gave ? 1 : 0);
  }
}

void BatchCounter::Read(StateReader& reader) {
  for (Step& step : steps_) {
    const bool for_ever = step.kind == Kind::kRepeat && step.limit == 0;
    step.count = reader.NumberUpTo(for_ever ? ~uint64_t{0} - 1 : step.limit);
    if (step.kind == Kind::kRepeat) step.gave = reader.NumberUpTo(1) != 0;
  }
}

}  // namespace millrace::pipeline
