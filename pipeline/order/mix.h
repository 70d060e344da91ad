#ifndef MILLRACE_PIPELINE_ORDER_MIX_H_
#define MILLRACE_PIPELINE_ORDER_MIX_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/permutation.h"

// Which input of a mix an element comes from, as arithmetic (docs/semantics.md, S-ORDER-12).
//
// Weights become parts of a period of 2^20 elements: input j owns a range of q_j of the points
// [0, 2^20). A period has 1,024 blocks of 1,024 elements. Block k takes the points that are
// r(k) modulo 1,024, r(k) being k with its ten bits reversed, so every period takes each point
// once, and every block takes 1,024 points spread evenly: each input's count in it is its part
// rounded up or down, and over the first k blocks it is never off by more than a few. Within the
// block the points come in the order of a keyed permutation. So how many elements of each input
// come before a block is a table of one period, and only the block itself is walked.

namespace millrace::pipeline {

// One block: of each element its input, and its number among those of this input in the block.
struct MixBlock {
  uint64_t number = 0;
  std::vector<uint16_t> input;
  std::vector<uint16_t> rank;
};

// Blocks made before, the latest of those whose numbers agree in the low bits. Thread-compatible.
struct MixMemo {
  std::vector<std::unique_ptr<const MixBlock>> blocks;
};

// Immutable, thread-safe.
class MixSchedule {
 public:
  static constexpr uint64_t kBlock = 1024;
  static constexpr uint64_t kPeriod = kBlock * kBlock;
  static constexpr size_t kMaxInputs = 1024;

  struct Pick {
    uint64_t input = 0;
    uint64_t index = 0;  // in the input's pass
  };

  // `key` is of the stage, without an epoch: how inputs alternate is the same in every pass.
  //   INVALID_ARGUMENT  no or too many inputs; not one weight per input; a weight below 0, not
  //                     finite, or all 0
  static absl::StatusOr<MixSchedule> Make(std::span<const double> weights, size_t num_inputs,
                                          uint64_t key);

  // Elements until the first that would come from an exhausted input; kInfinite without end.
  uint64_t Size(std::span<const uint64_t> input_sizes) const;
  Pick At(uint64_t position, MixMemo& memo) const;

 private:
  MixSchedule() = default;
  size_t InputOf(uint64_t point) const;
  // Elements of `input` in all blocks before `block`.
  uint64_t CountBefore(size_t input, uint64_t block) const;
  // The position of element `index` of `input`; kInfinite if it never comes.
  uint64_t PositionOf(size_t input, uint64_t index) const;
  std::unique_ptr<const MixBlock> MakeBlock(uint64_t number) const;

  uint64_t key_ = 0;
  std::vector<uint64_t> ends_;                 // the end of each input's range of points
  std::vector<std::vector<uint32_t>> before_;  // per input: its elements before block k of a period
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_ORDER_MIX_H_
