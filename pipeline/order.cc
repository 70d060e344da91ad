#include <algorithm>

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

OrderElement Order::At(uint64_t position, uint64_t epoch) const {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (step->kind == Kind::kSkip) {
      position += step->count;
    } else if (step->kind == Kind::kRepeat && position >= step->inner_size) {
      const uint64_t pass = position / step->inner_size;
      epoch += pass * step->inner_epochs;
      position -= pass * step->inner_size;
    } else if (step->kind == Kind::kGlobalShuffle) {
      position = Permutation(step->inner_size, ShuffleKey(seed_, step->key, epoch))(position);
    }
  }
  return {epoch, position};
}

uint64_t Order::EpochAt(uint64_t position, uint64_t epoch) const {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (step->kind == Kind::kSkip) {
      position += step->count;
    } else if (step->kind == Kind::kRepeat && position >= step->inner_size) {
      const uint64_t pass = position / step->inner_size;
      epoch += pass * step->inner_epochs;
      position -= pass * step->inner_size;
    } else if (step->kind == Kind::kGlobalShuffle) {
      position = 0;
    }
  }
  return epoch;
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
