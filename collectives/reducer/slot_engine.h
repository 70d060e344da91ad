#ifndef MILLRACE_COLLECTIVES_REDUCER_SLOT_ENGINE_H_
#define MILLRACE_COLLECTIVES_REDUCER_SLOT_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "collectives/core/sum_kernels.h"
#include "collectives/reducer/host_engine.h"
#include "collectives/reducer/private_options.h"
#include "collectives/reducer/user_buffers.h"

namespace millrace::collectives {

// The reductions of gradients that live in their caller's memory, where all ranks are on one host:
// through slots of shared memory, piece by piece. A piece takes as much of each rank's share of a
// bucket.
//   fill   the own gradients' piece goes to the own slot
//   sum    the own share of all ranks' slots is summed in rank order and stored into every slot
//   empty  the own slot, now of sums, goes back to the own gradients
// A rank has two slots, so that it fills one while its peers are at the other. Shares, order and so
// bits are those of BucketEngine.
class SlotEngine final : public HostEngine {
 public:
  static constexpr size_t kNumSlots = 2;
  static size_t SlotBytes(int ranks);
  // The size of a rank's copy in the host's memory.
  static size_t CopyBytes(int ranks) { return kNumSlots * SlotBytes(ranks); }

  // `memory` outlives the engine too. REQUIRES: one host.
  SlotEngine(const BucketPlan& plan, HostLinks& links, const PrivateReducerOptions& options,
             Waiting waiting, const UserBuffers& memory);

  absl::Status Publish(uint32_t count) override;
  absl::Status Poll(bool counts) override;
  absl::Status Drain() override;
  absl::Status AwaitDone(uint32_t base) override;
  Range OwnPart(size_t bucket) const override;
  absl::Status GatherParts(uint32_t count) override;
  void WakeAll() override;

 private:
  struct Piece {
    size_t bucket = 0;
    size_t begin = 0;  // the first byte, within each share
  };
  // The work of a pass on the shares: it sums those of all ranks, or gives each rank's own to all.
  enum class Pass { kSum, kGather };

  // The numbers of pieces of this pass that have gone through each stage.
  struct Stages {
    size_t filled = 0;
    size_t summed = 0;
    size_t emptied = 0;
  };

  // Does one stage of one piece if one needs no wait; false if none does.
  bool Advance(Pass pass);
  // Waits until a stage might need no wait.
  absl::Status AwaitOne(Pass pass);
  absl::Status AwaitFull(size_t bucket);
  absl::Status Run(Pass pass);
  bool IsFull(size_t bucket) const;
  void Fill(size_t piece, Pass pass);
  void Sum(size_t piece, Pass pass);
  void Empty(size_t piece, Pass pass);
  void BeginSums(size_t bucket);
  void EndPass();
  Range PartOf(const Piece& piece, int stripe) const;
  std::byte* SlotOf(int rank, size_t piece) const;
  std::byte* SlotOf(int rank, size_t piece, int stripe) const {
    return SlotOf(rank, piece) + static_cast<size_t>(stripe) * part_bytes_;
  }
  uint32_t CountOf(size_t piece) const { return base_ + static_cast<uint32_t>(piece) + 1; }
  SharedHost& host() const { return *links_.host; }
  RankBoard& own() const { return host().board(host().rank()); }

  // Constant after construction.
  const UserBuffers& memory_;
  const bool trivial_;  // true if there is one rank, whose gradients are the sums
  size_t slot_bytes_ = 0;
  size_t part_bytes_ = 0;  // the bytes of each share in a slot
  std::vector<Piece> pieces_;

  SharedFlag full_ = {};      // caller -> engine: buckets, of all steps
  SharedFlag finished_ = {};  // engine -> caller: buckets, of all steps that have ended

  // The running pass.
  uint32_t base_ = 0;          // pieces of all passes before
  uint32_t base_buckets_ = 0;  // buckets of all steps before
  Stages stages_;
  int64_t rows_ = 0;
  SquareSums squares_ = {};
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_SLOT_ENGINE_H_
