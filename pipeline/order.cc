#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/permutation.h"
#include "base/philox.h"
#include "base/status.h"
#include "pipeline/order_internal.h"

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;

// S-ORDER-4.
uint64_t ShuffleKey(uint64_t seed, uint64_t stage, uint64_t epoch) {
  return Mix64(Mix64(Mix64(seed) + stage) + epoch);
}

absl::Status StageError(const OrderStep& step, std::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("stage \"", step.stage, "\": ", ToAbsl(text)));
}

uint64_t SaturatingProduct(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product >= kMaxCount) return kInfinite;
  return product;
}

}  // namespace

absl::StatusOr<Order> Order::Make(std::span<const OrderStep> steps, uint64_t source_size,
                                  uint64_t seed,
                                  const std::function<uint64_t(uint64_t)>& epochs_begun) {
  Order order;
  order.epochs_begun_ = epochs_begun;
  order.seed_ = seed;
  order.size_ = source_size;
  for (const OrderStep& step : steps) MILLRACE_RETURN_IF_ERROR(order.Append(step));
  return order;
}

absl::Status Order::Append(const OrderStep& step) {
  switch (step.kind) {
    case Kind::kRepeat:
      return AppendRepeat(step);
    case Kind::kGlobalShuffle:
      if (size_ == kInfinite) return StageError(step, "cannot shuffle a stream without end");
      steps_.push_back({step.kind, 0, size_, 0, step.key});
      return absl::OkStatus();
    case Kind::kTake:
      steps_.push_back({step.kind, step.count, size_, 0, 0});
      if (size_ != kInfinite || step.count < kMaxCount) size_ = std::min(size_, step.count);
      return absl::OkStatus();
    case Kind::kSkip:
      if (size_ == kInfinite && step.count >= kMaxCount) {
        return StageError(step, "skips more than 2^62 elements of a stream without end");
      }
      steps_.push_back({step.kind, step.count, size_, 0, 0});
      if (size_ != kInfinite) size_ -= std::min(size_, step.count);
      return absl::OkStatus();
    default:
      break;
  }
  return absl::InternalError("an order step of no known kind");
}

absl::Status Order::AppendRepeat(const OrderStep& step) {
  const bool for_ever = step.count == 0;
  if (for_ever && size_ == 0) {
    return StageError(step, "repeats for ever what has no elements");
  }
  const uint64_t inner_epochs = size_ == kInfinite ? 1 : EpochsBegun(size_);
  steps_.push_back({step.kind, step.count, size_, inner_epochs, 0});
  if (size_ != kInfinite) size_ = for_ever ? kInfinite : SaturatingProduct(size_, step.count);
  return absl::OkStatus();
}

// Undoes one step for an element of its output; a shuffle is the caller's.
void Order::Undo(const Step& step, SampleId& element) {
  if (step.kind == Kind::kSkip) {
    element.record += step.count;
  } else if (step.kind == Kind::kRepeat && element.record >= step.inner_size) {
    const uint64_t pass = element.record / step.inner_size;
    element.epoch += pass * step.inner_epochs;
    element.record -= pass * step.inner_size;
  }
}

void Order::UndoShuffle(const Step& step, std::span<SampleId> elements) const {
  std::optional<Permutation> permutation;  // of `epoch`; making one costs more than using it
  uint64_t epoch = 0;
  for (SampleId& element : elements) {
    if (!permutation.has_value() || element.epoch != epoch) {
      epoch = element.epoch;
      permutation.emplace(step.inner_size, ShuffleKey(seed_, step.key, epoch));
    }
    element.record = (*permutation)(element.record);
  }
}

void Order::Map(std::span<SampleId> elements) const {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (step->kind == Kind::kGlobalShuffle) {
      UndoShuffle(*step, elements);
    } else {
      for (SampleId& element : elements) Undo(*step, element);
    }
  }
}

uint64_t Order::EpochAt(uint64_t position, uint64_t epoch) const {
  SampleId element{.epoch = epoch, .record = position};
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (step->kind == Kind::kGlobalShuffle) element.record = 0;
    Undo(*step, element);
  }
  return element.epoch;
}

uint64_t Order::EpochsBegun(uint64_t consumed) const {
  if (consumed == 0) return 1;
  uint64_t epochs = 0;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (step->kind == Kind::kSkip) {
      consumed += step->count;
    } else if (step->kind == Kind::kRepeat && consumed > step->inner_size) {
      const uint64_t passes = (consumed - 1) / step->inner_size;
      epochs += passes * step->inner_epochs;
      consumed -= passes * step->inner_size;
    } else if (step->kind == Kind::kGlobalShuffle) {
      consumed = step->inner_size;
    }
  }
  return epochs + epochs_begun_(consumed);
}

}  // namespace millrace::pipeline
