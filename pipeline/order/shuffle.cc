#include "pipeline/order/shuffle.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/permutation.h"
#include "base/philox.h"
#include "pipeline/order/order.h"

namespace millrace::pipeline {

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
  return DrawSlot(key + i, std::min(buffer_, i + 1));
}

// `SlotType` holds the number of an input: the narrower, the more of the buffer is in the cache.
template <typename SlotType>
class BufferSlots final : public BufferShuffleState {
 public:
  explicit BufferSlots(const BufferShuffle* shuffle)
      : shuffle_(*shuffle), slots_(shuffle->num_slots()) {}

  void Undo(std::span<SampleId> outputs, uint64_t key) override {
    for (size_t i = 0; i < outputs.size();) {
      const uint64_t output = outputs[i].record;
      if (output != next_ || key != key_) MoveTo(std::min(output, shuffle_.drain_), key);
      if (output >= shuffle_.drain_) {
        outputs[i].record = Drained(output);
        ++i;
        continue;
      }
      const size_t end = EndOfRun(outputs, i);
      for (; i < end && next_ < shuffle_.buffer_; ++i) {  // while the buffer fills
        Begin(next_);
        outputs[i].record = Exchange();
      }
      for (; i < end; ++i) outputs[i].record = Exchange();
    }
  }

 private:
  static constexpr SlotType kUnknown = ~SlotType{0};
  // Going on costs one step an output; walking back about ln b steps a slot, and a pass over them.
  static constexpr uint64_t kForwardStepsPerSlot = 8;

  // Where the outputs that follow each other from `first` on end, at the drain at last.
  size_t EndOfRun(std::span<const SampleId> outputs, size_t first) const {
    const uint64_t most =
        std::min<uint64_t>(outputs.size() - first, shuffle_.drain_ - outputs[first].record);
    size_t length = 1;
    while (length < most && outputs[first + length].record == outputs[first].record + length) {
      ++length;
    }
    return first + length;
  }

  // Slot s comes into use at output s, with input 2 s.
  void Begin(uint64_t slot) { slots_[slot] = static_cast<SlotType>(2 * slot); }

  uint64_t Exchange() {
    SlotType& slot = slots_[shuffle_.Slot(next_, key_)];
    const uint64_t input = slot;
    slot = static_cast<SlotType>(shuffle_.Refill(next_));
    ++next_;
    return input;
  }

  uint64_t Drained(uint64_t output) {
    const uint64_t drain = shuffle_.drain_;
    const uint64_t left = shuffle_.size_ - drain;
    if (drain < left) Begin(drain);
    return slots_[drain_order_.Get(left, Mix64(key_ - 1))(output - drain)];
  }

  void MoveTo(uint64_t output, uint64_t key) {
    if (key != key_) {
      key_ = key;
      next_ = 0;
    }
    const uint64_t far = std::min(shuffle_.buffer_, output) * kForwardStepsPerSlot;
    if (output < next_ || output - next_ > far) return Rebuild(output);
    while (next_ < output) {
      if (next_ < shuffle_.buffer_) Begin(next_);
      Exchange();
    }
  }

  void Rebuild(uint64_t output) {
    const uint64_t in_use = std::min(shuffle_.buffer_, output);
    uint64_t unknown = in_use;
    std::fill_n(slots_.begin(), in_use, kUnknown);
    for (uint64_t i = output; i > 0 && unknown > 0; --i) {
      SlotType& slot = slots_[shuffle_.Slot(i - 1, key_)];
      if (slot != kUnknown) continue;
      slot = static_cast<SlotType>(shuffle_.Refill(i - 1));
      --unknown;
    }
    for (uint64_t slot = 0; unknown > 0; ++slot) {
      if (slots_[slot] != kUnknown) continue;
      Begin(slot);
      --unknown;
    }
    next_ = output;
  }

  const BufferShuffle& shuffle_;
  uint64_t key_ = 0;
  uint64_t next_ = 0;  // the output that the slots are before
  std::vector<SlotType> slots_;
  PermutationMemo drain_order_;
};

std::unique_ptr<BufferShuffleState> MakeBufferShuffleState(const BufferShuffle* shuffle) {
  if (shuffle->narrow()) {
    return std::make_unique<BufferSlots<uint32_t>>(shuffle);
  }
  return std::make_unique<BufferSlots<uint64_t>>(shuffle);
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
