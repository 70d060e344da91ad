#ifndef MILLRACE_PIPELINE_ORDER_SHUFFLE_H_
#define MILLRACE_PIPELINE_ORDER_SHUFFLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/permutation.h"
#include "base/philox.h"
#include "base/run.h"

// shuffle(buffer) and the block-wise global_shuffle as arithmetic (docs/semantics.md, S-ORDER-8 and
// S-ORDER-9).
//
// A shuffle buffer looks sequential: which element leaves depends on all that came and left before.
// But the slots that are drawn depend only on a counter, so the element in slot s before output i
// is told by the last output j < i that drew s: it was refilled then, with an input that j alone
// determines. Going on from output to output this costs one word per slot; after a jump, walking
// back from i until every slot was drawn finds the whole buffer in about b ln b steps (a coupon
// collector), far fewer than the way from the beginning. No element ever needs to be kept in a
// resume token.

namespace millrace::pipeline {

// A permutation that is made once for a key: making one costs more than using it.
class PermutationMemo {
 public:
  const Permutation& Get(uint64_t size, uint64_t key) {
    if (!permutation_.has_value() || key != key_ || size != permutation_->size()) {
      permutation_.emplace(size, key);
      key_ = key;
    }
    return *permutation_;
  }

 private:
  std::optional<Permutation> permutation_;
  uint64_t key_ = 0;
};

// The slot that a draw takes of `filled` ones: floor(M(draw) filled / 2^64).
inline uint64_t DrawSlot(uint64_t draw, uint64_t filled) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Mix64(draw)) * filled) >> 64);
}

class BufferShuffleState;

// A pass of shuffle over `size` elements (or kInfinite) with `buffer` slots.
class BufferShuffle {
 public:
  // REQUIRES: buffer > 0.
  BufferShuffle(uint64_t buffer, uint64_t size);

  // Inputs that the first `outputs` outputs take. REQUIRES: 0 < outputs <= size.
  uint64_t Consumed(uint64_t outputs) const;
  // Slots that are ever in use.
  uint64_t num_slots() const { return slots_; }
  // The bytes of a BufferShuffleState.
  uint64_t state_bytes() const { return slots_ * (narrow() ? 4 : 8); }

 private:
  template <typename Slot>
  friend class BufferSlots;
  friend std::unique_ptr<BufferShuffleState> MakeBufferShuffleState(const BufferShuffle* shuffle);
  // The slot that output i draws, and the input that refills it. REQUIRES: i < drain_.
  uint64_t Slot(uint64_t i, uint64_t key) const;
  uint64_t Refill(uint64_t i) const { return i < buffer_ - 1 ? 2 * i + 1 : i + buffer_; }
  // True if 4 bytes hold the number of every input, and one more for none.
  bool narrow() const { return size_ <= ~uint32_t{0}; }

  uint64_t buffer_;
  uint64_t size_;
  uint64_t drain_;  // the first output for which all inputs are in the buffer
  uint64_t slots_;
};

// The buffer before some output of some pass. Thread-compatible.
class BufferShuffleState {
 public:
  virtual ~BufferShuffleState() = default;
  // Replaces outputs, by their numbers in the pass of this key, with the inputs that come out. Fast
  // when the first is at, or not far behind, the end of the last call, and each next one is one
  // higher. REQUIRES: all < size.
  virtual void Undo(std::span<SampleId> outputs, uint64_t key) = 0;
};
// Borrows the shuffle.
std::unique_ptr<BufferShuffleState> MakeBufferShuffleState(const BufferShuffle* shuffle);

// A pass of global_shuffle with block_bytes: permutes the full blocks; the elements behind them
// stay last. Then permutes the elements of each window.
struct BlockShuffle {
  uint64_t block = 1;   // elements
  uint64_t window = 1;  // elements

  struct Permutations {
    PermutationMemo whole;
    PermutationMemo window;
  };
  // REQUIRES: output < size.
  uint64_t InputOf(uint64_t output, uint64_t size, uint64_t key, Permutations& memo) const;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_ORDER_SHUFFLE_H_
