// The parts of a bucket that ranks update by themselves (ZeRO-1). Inside a host they are the
// shares; a share is cut once more between hosts: a block of equal size per host, multiples of 64
// bytes, for ReduceScatter and AllGather, and what does not divide goes to the last host by Reduce
// and Broadcast.

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/reducer/bucket_engine.h"

namespace millrace::collectives {
namespace {

constexpr size_t kBlockElements = 32;  // 64 bytes of the smallest type

TensorView Elements(void* data, DType dtype, size_t begin, size_t end) {
  return {static_cast<std::byte*>(data) + begin * SizeOf(dtype), dtype,
          Shape{static_cast<int64_t>(end - begin)}};
}

}  // namespace

size_t BucketEngine::BlockOf(size_t count) const {
  return count / static_cast<size_t>(links_.groups.num_hosts()) / kBlockElements * kBlockElements;
}

BucketEngine::Range BucketEngine::OwnPart(size_t bucket) const {
  const Range& share = shares_[bucket];
  if (!has_share()) return {share.offset, 0};
  if (!options_.shard || links_.cross == nullptr) return share;
  const size_t element = SizeOf(plan_.buckets[bucket].dtype);
  const size_t block = BlockOf(share.bytes / element) * element;
  const size_t begin = block * static_cast<size_t>(links_.cross->rank());
  const bool last = links_.cross->rank() + 1 == links_.cross->size();
  return {share.offset + begin, last ? share.bytes - begin : block};
}

void BucketEngine::BeginScatter(const TensorView& share, Exchange& exchange) {
  Communicator& cross = *links_.cross;
  const auto hosts = static_cast<size_t>(cross.size());
  const auto count = static_cast<size_t>(share.shape.num_elements());
  const size_t block = BlockOf(count);
  const size_t own = block * static_cast<size_t>(cross.rank());
  exchange.pending.push_back(
      cross.Start({.kind = Collective::kReduceScatter,
                   .in = Elements(share.data, share.dtype, 0, block * hosts),
                   .out = Elements(share.data, share.dtype, own, own + block),
                   .op = ReduceOp::kSum,
                   .agreed = true}));
  const TensorView rest = Elements(share.data, share.dtype, block * hosts, count);
  exchange.pending.push_back(cross.Start({.kind = Collective::kReduce,
                                          .in = rest,
                                          .out = rest,
                                          .op = ReduceOp::kSum,
                                          .peer = cross.size() - 1,
                                          .agreed = true}));
}

// The exchange is begun, not run: a rank that waited for it within Poll could not go on with the
// team's other reducers, for which the peer may be waiting.
void BucketEngine::BeginSquares(size_t bucket) {
  const TensorView view = {&all_squares_, DType::kF64, Shape{1}};
  exchanges_.push_back({bucket, {}, /*of_squares=*/true});
  exchanges_.back().pending.push_back(AddHosts(view));
}

absl::Status BucketEngine::GatherBetweenHosts(size_t bucket) {
  Communicator& cross = *links_.cross;
  const DType dtype = plan_.buckets[bucket].dtype;
  const Range& share = shares_[bucket];
  std::byte* const data = links_.host->copy(links_.host->rank()) + share.offset;
  const size_t count = share.bytes / SizeOf(dtype);
  const size_t block = BlockOf(count);
  const size_t own = block * static_cast<size_t>(cross.rank());
  const size_t even = block * static_cast<size_t>(cross.size());
  MILLRACE_RETURN_IF_ERROR(cross.Run({.kind = Collective::kAllGather,
                                      .in = Elements(data, dtype, own, own + block),
                                      .out = Elements(data, dtype, 0, even),
                                      .agreed = true}));
  const TensorView rest = Elements(data, dtype, even, count);
  return cross.Run({.kind = Collective::kBroadcast,
                    .in = rest,
                    .out = rest,
                    .peer = cross.size() - 1,
                    .agreed = true});
}

// Nobody reads another's parts before all have given theirs, so they are stored without waiting.
absl::Status BucketEngine::GatherParts(uint32_t count) {
  SharedHost& host = *links_.host;
  for (size_t bucket = 0; has_share() && bucket < plan_.buckets.size(); ++bucket) {
    if (links_.cross != nullptr) {
      MILLRACE_RETURN_IF_ERROR(
          Annotate(GatherBetweenHosts(bucket), absl::StrCat("shards of bucket ", bucket)));
    }
    const Range& share = shares_[bucket];
    for (int r = 0; r < host.size(); ++r) {
      if (r == host.rank()) continue;
      std::memcpy(host.copy(r) + share.offset, host.copy(host.rank()) + share.offset, share.bytes);
    }
  }
  if (has_share()) Raise(host.board(host.rank()).gathered, count);
  const Deadline deadline = DeadlineOf(waiting_.timeout);
  for (int stripe = 0; stripe < links_.groups.num_stripes(); ++stripe) {
    MILLRACE_RETURN_IF_ERROR(AwaitPeer(stripe, host.board(stripe).gathered, count, deadline));
  }
  return absl::OkStatus();
}

}  // namespace millrace::collectives
