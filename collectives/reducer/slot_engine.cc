// The counters of the boards count pieces here, not buckets: `published` those that are filled,
// `done` those whose share is summed. A slot is its owner's to fill again when it has emptied it,
// which it does when all have done their share of it; so two counters are enough, and no rank is
// more than two pieces ahead of another.

#include "collectives/reducer/slot_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"

namespace millrace::collectives {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kLeastSlotBytes = size_t{256} << 10;

}  // namespace

size_t SlotEngine::SlotBytes(int ranks) {
  return std::max(kLeastSlotBytes, static_cast<size_t>(ranks) * kLine);
}

SlotEngine::SlotEngine(const BucketPlan& plan, HostLinks& links,
                       const PrivateReducerOptions& options, Waiting waiting,
                       const UserBuffers& memory)
    : HostEngine(plan, links, options, std::move(waiting)),
      memory_(memory),
      trivial_(links.host->size() == 1 && !options.average_by_rows && !wants_squares()),
      slot_bytes_(SlotBytes(links.host->size())) {
  const auto ranks = static_cast<size_t>(host().size());
  part_bytes_ = slot_bytes_ / ranks / kLine * kLine;
  for (size_t bucket = 0; bucket < plan_.buckets.size(); ++bucket) {
    const size_t share = ShareOf(bucket, 0).bytes;  // the largest
    size_t begin = 0;
    do {
      pieces_.push_back({bucket, begin});
      begin += part_bytes_;
    } while (begin < share);
  }
}

ReductionEngine::Range SlotEngine::PartOf(const Piece& piece, int stripe) const {
  const Range share = ShareOf(piece.bucket, stripe);
  const size_t begin = std::min(piece.begin, share.bytes);
  return {share.offset + begin, std::min(part_bytes_, share.bytes - begin)};
}

std::byte* SlotEngine::SlotOf(int rank, size_t piece) const {
  return host().copy(rank) + CountOf(piece) % kNumSlots * slot_bytes_;
}

absl::Status SlotEngine::Publish(uint32_t count) {
  Raise(full_, count);
  return CheckHealth();
}

void SlotEngine::WakeAll() {
  ReductionEngine::WakeAll();
  Wake(full_);
}

bool SlotEngine::IsFull(size_t bucket) const {
  return HasReached(full_, base_buckets_ + static_cast<uint32_t>(bucket) + 1);
}

bool SlotEngine::Advance(Pass pass) {
  const auto all = [this](SharedFlag RankBoard::*flag, size_t piece) {
    for (int r = 0; r < host().size(); ++r) {
      if (!HasReached(host().board(r).*flag, CountOf(piece))) return false;
    }
    return true;
  };
  // First what peers may be waiting for.
  if (stages_.summed < stages_.filled && all(&RankBoard::published, stages_.summed)) {
    Sum(stages_.summed++, pass);
  } else if (stages_.filled < pieces_.size() && stages_.filled < stages_.emptied + kNumSlots &&
             (pass == Pass::kGather || IsFull(pieces_[stages_.filled].bucket))) {
    Fill(stages_.filled++, pass);
  } else if (stages_.emptied < stages_.summed && all(&RankBoard::done, stages_.emptied)) {
    Empty(stages_.emptied++, pass);
  } else {
    return false;
  }
  return true;
}

void SlotEngine::Fill(size_t piece, Pass pass) {
  for (int stripe = 0; stripe < host().size(); ++stripe) {
    if (trivial_ || (pass == Pass::kGather && stripe != host().rank())) continue;
    const Range part = PartOf(pieces_[piece], stripe);
    memory_.CopyIn(part.offset, part.bytes, SlotOf(host().rank(), piece, stripe));
  }
  Raise(own().published, CountOf(piece));
}

// Of a step's first piece: every rank has said its rows when it has published that.
void SlotEngine::BeginSums(size_t bucket) {
  if (stages_.summed == 1) {
    squares_ = {};
    rows_ = 0;
    for (int r = 0; r < host().size(); ++r) rows_ += host().board(r).rows;
  }
  Enter(bucket, Phase::kReducing);
  times_.Begin(step_, bucket);
}

void SlotEngine::Sum(size_t piece, Pass pass) {
  const size_t bucket = pieces_[piece].bucket;
  const bool sums = pass == Pass::kSum;
  if (sums && pieces_[piece].begin == 0) BeginSums(bucket);
  const Range part = PartOf(pieces_[piece], host().rank());
  std::vector<const void*> in;
  std::vector<void*> out;
  for (int r = 0; r < host().size(); ++r) {
    std::byte* const slot = SlotOf(r, piece, host().rank());
    const bool own = r == host().rank();
    if (sums || own) in.push_back(slot);
    // In a gather, the own slot has the part already.
    if (sums ? own || !options_.shard : !own) out.push_back(slot);
  }
  const DType dtype = plan_.buckets[bucket].dtype;
  const float divisor = sums && options_.average_by_rows ? DivisorOf(rows_) : 1;
  if (!sums) {
    for (void* const slot : out) std::memcpy(slot, in[0], part.bytes);
  } else if (part.bytes > 0 && !trivial_) {
    SumAndStore(dtype, in, out, part.bytes / SizeOf(dtype), divisor,
                wants_squares() ? &squares_ : nullptr);
  }
  if (sums && piece + 1 == pieces_.size()) {
    own().all_rows = options_.average_by_rows ? rows_ : 0;
    own().sum_of_squares = 0;
    for (const double one : squares_) own().sum_of_squares += one;
  }
  if (sums) times_.End(bucket);
  Raise(own().done, CountOf(piece));
  if (sums) Enter(bucket, Phase::kBackward);  // back to where the reducer was called from
}

void SlotEngine::Empty(size_t piece, Pass pass) {
  for (int stripe = 0; stripe < host().size(); ++stripe) {
    const bool own = stripe == host().rank();
    // Of a sum that is cut into shards the own part alone; of what is gathered the others'.
    if (trivial_ || (pass == Pass::kSum ? options_.shard && !own : own)) continue;
    const Range part = PartOf(pieces_[piece], stripe);
    memory_.CopyOut(part.offset, part.bytes, SlotOf(host().rank(), piece, stripe));
  }
}

absl::Status SlotEngine::Poll(bool counts) {
  const int64_t start = StepTimes::Now();
  while (Advance(Pass::kSum)) {
  }
  if (counts && stages_.summed > 0) {
    times_.Polled(pieces_[stages_.summed - 1].bucket, StepTimes::Now() - start);
  }
  return absl::OkStatus();
}

// The caller says that a step begins, and it may be between two steps.
absl::Status SlotEngine::AwaitFull(size_t bucket) {
  if (bucket > 0) Enter(bucket, Phase::kBackward);
  const auto count = base_buckets_ + static_cast<uint32_t>(bucket) + 1;
  return AwaitFlag(full_, count, Deadline::max(), waiting_.stopped);
}

// A peer that is awaited for a later stage needs nothing more of this rank for it, so the earliest
// stage that stands is the one to wait for. The step's place and times are the thread's where there
// is one, which a caller that gathers therefore leaves alone.
absl::Status SlotEngine::AwaitOne(Pass pass) {
  const bool sums = stages_.summed < stages_.filled;
  const bool empties = stages_.emptied < stages_.summed;
  if (!sums && !empties) return AwaitFull(pieces_[stages_.filled].bucket);
  const size_t piece = empties ? stages_.emptied : stages_.summed;
  const size_t bucket = pieces_[piece].bucket;
  if (pass == Pass::kSum) Enter(bucket, Phase::kWaiting);
  const Deadline deadline = DeadlineOf(waiting_.timeout);
  const int64_t start = StepTimes::Now();
  for (int r = 0; r < host().size(); ++r) {
    SharedFlag& flag = empties ? host().board(r).done : host().board(r).published;
    if (HasReached(flag, CountOf(piece))) continue;
    TellAwaited(bucket, r);
    MILLRACE_RETURN_IF_ERROR(MetAt(bucket, AwaitPeer(r, flag, CountOf(piece), deadline)));
    const bool fills = pass == Pass::kSum && !empties;
    if (fills) times_.Waited(step_, links_.ranks[r], StepTimes::Now() - start);
  }
  return absl::OkStatus();
}

absl::Status SlotEngine::Run(Pass pass) {
  while (stages_.emptied < pieces_.size()) {
    if (!Advance(pass)) MILLRACE_RETURN_IF_ERROR(AwaitOne(pass));
  }
  EndPass();
  return absl::OkStatus();
}

void SlotEngine::EndPass() {
  base_ += static_cast<uint32_t>(pieces_.size());
  stages_ = {};
}

// The state that a caller's GatherParts changes is read only behind the first full bucket.
absl::Status SlotEngine::Drain() {
  if (!pieces_.empty() && !IsFull(0)) MILLRACE_RETURN_IF_ERROR(AwaitFull(0));
  MILLRACE_RETURN_IF_ERROR(Run(Pass::kSum));
  const size_t last = std::max<size_t>(1, plan_.buckets.size()) - 1;
  Enter(last, Phase::kBackward);
  base_buckets_ += static_cast<uint32_t>(plan_.buckets.size());
  step_ += step_stride_;
  Raise(finished_, base_buckets_);
  return absl::OkStatus();
}

// The thread says what holds it up; the health of its peers is its business too.
absl::Status SlotEngine::AwaitDone(uint32_t base) {
  return AwaitFlag(finished_, base + static_cast<uint32_t>(plan_.buckets.size()), Deadline::max(),
                   waiting_.stopped, LongestSleep());
}

ReductionEngine::Range SlotEngine::OwnPart(size_t bucket) const {
  return ShareOf(bucket, host().rank());
}

absl::Status SlotEngine::GatherParts(uint32_t) { return Run(Pass::kGather); }

}  // namespace millrace::collectives
