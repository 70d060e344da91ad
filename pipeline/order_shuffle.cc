#include <algorithm>

#include "base/permutation.h"
#include "base/philox.h"
#include "pipeline/order_internal.h"
#include "pipeline/order_shuffle_internal.h"

namespace millrace::pipeline {
namespace {

constexpr uint64_t kUnknown = ~uint64_t{0};
// Going on costs one step an output; walking back about ln b steps a slot, and a pass over them.
constexpr uint64_t kForwardStepsPerSlot = 8;

}  // namespace

BufferShuffle::BufferShuffle(uint64_t buffer, uint64_t size) : buffer_(buffer), size_(size) {
  if (size == kInfinite) {
    drain_ = kInfinite;
    slots_ = buffer;
    return;
  }
  drain_ = std::max(size / 2, size > buffer ? size - buffer : 0);
  slots_ = std::min(buffer, size / 2 + 1);
}

uint64_t BufferShuffle::Consumed(uint64_t outputs) const {
  const uint64_t last = outputs - 1;
  return std::min({2 * last + 1, last + buffer_, size_});
}

uint64_t BufferShuffle::Slot(uint64_t i, uint64_t key) const {
  const uint64_t filled = std::min(buffer_, i + 1);
  const auto product = static_cast<unsigned __int128>(Mix64(key + i)) * filled;
  return static_cast<uint64_t>(product >> 64);
}

uint64_t BufferShuffleState::InputOf(uint64_t output, uint64_t key) {
  const uint64_t drain = shuffle_.drain_;
  if (output != next_ || key != key_ || slots_.empty()) MoveTo(std::min(output, drain), key);
  if (output < drain) {
    if (output < shuffle_.buffer_) slots_[output] = 2 * output;
    uint64_t& slot = slots_[shuffle_.Slot(output, key)];
    const uint64_t input = slot;
    slot = shuffle_.Refill(output);
    ++next_;
    return input;
  }
  const uint64_t left = shuffle_.size_ - drain;
  if (drain < left) slots_[drain] = 2 * drain;  // the slot that output `drain` would have begun
  return slots_[drain_order_.Get(left, Mix64(key - 1))(output - drain)];
}

void BufferShuffleState::MoveTo(uint64_t output, uint64_t key) {
  if (slots_.empty()) slots_.resize(shuffle_.slots_);
  if (key != key_) {
    key_ = key;
    next_ = 0;
  }
  const uint64_t far = std::min(shuffle_.buffer_, output) * kForwardStepsPerSlot;
  if (output >= next_ && output - next_ <= far) {
    Advance(output);
  } else {
    Rebuild(output);
  }
}

void BufferShuffleState::Advance(uint64_t output) {
  for (uint64_t i = next_; i < output; ++i) {
    if (i < shuffle_.buffer_) slots_[i] = 2 * i;
    slots_[shuffle_.Slot(i, key_)] = shuffle_.Refill(i);
  }
  next_ = output;
}

void BufferShuffleState::Rebuild(uint64_t output) {
  uint64_t unknown = std::min(shuffle_.buffer_, output);
  std::fill_n(slots_.begin(), unknown, kUnknown);
  for (uint64_t i = output; i > 0 && unknown > 0; --i) {
    uint64_t& slot = slots_[shuffle_.Slot(i - 1, key_)];
    if (slot != kUnknown) continue;
    slot = shuffle_.Refill(i - 1);
    --unknown;
  }
  for (uint64_t s = 0; unknown > 0; ++s) {
    if (slots_[s] != kUnknown) continue;
    slots_[s] = 2 * s;
    --unknown;
  }
  next_ = output;
}

uint64_t BlockShuffle::InputOf(uint64_t output, uint64_t size, uint64_t key,
                               Permutations& memo) const {
  const uint64_t number = output / window;
  const uint64_t first = number * window;
  const uint64_t length = std::min(window, size - first);
  output = first + memo.window.Get(length, Mix64(Mix64(key) + number))(output - first);
  const uint64_t blocks = size / block;
  if (output >= blocks * block) return output;
  return memo.whole.Get(blocks, key)(output / block) * block + output % block;
}

}  // namespace millrace::pipeline
