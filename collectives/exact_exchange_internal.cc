#include "collectives/exact_exchange_internal.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"

namespace millrace::collectives {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kMaxPartBytes = size_t{1} << 20;
constexpr size_t kMaxBufferBytes = size_t{16} << 20;  // of what is sent and of what is taken

TensorView Bytes(std::byte* data, size_t bytes) {
  return {data, DType::kU8, Shape{static_cast<int64_t>(bytes)}};
}

}  // namespace

ExactExchange::ExactExchange(Communicator& cross, const HostGroups& groups, SharedHost& host)
    : cross_(cross),
      groups_(groups),
      host_(host),
      num_hosts_(static_cast<size_t>(groups.num_hosts())),
      slots_(static_cast<size_t>(groups.largest())) {}

absl::Status ExactExchange::Reduce(DType dtype, size_t offset, size_t bytes, float divisor,
                                   SquareLanes* squares, const Await& await) {
  const size_t even = (bytes + num_hosts_ * kLine - 1) / (num_hosts_ * kLine) * kLine;
  const size_t room = kMaxBufferBytes / (num_hosts_ * slots_) / kLine * kLine;
  const size_t part = std::min({even, std::max(room, kLine), kMaxPartBytes});
  const size_t piece = part * num_hosts_;
  sent_.resize(piece * slots_);
  taken_.resize(piece * slots_);
  sums_.resize(piece);
  std::vector<void*> copies(static_cast<size_t>(host_.size()));
  for (size_t at = 0; at < bytes; at += piece) {
    const size_t length = std::min(piece, bytes - at);
    MILLRACE_RETURN_IF_ERROR(ReducePiece(dtype, offset + at, length, part, divisor, await));
    for (int r = 0; r < host_.size(); ++r) copies[r] = host_.copy(r) + offset + at;
    const void* const sum = sums_.data();
    SumAndStore(dtype, {&sum, 1}, copies, length / SizeOf(dtype), 1, squares);
  }
  return absl::OkStatus();
}

absl::Status ExactExchange::ReducePiece(DType dtype, size_t offset, size_t bytes, size_t part_bytes,
                                        float divisor, const Await& await) {
  for (size_t h = 0; h * part_bytes < bytes; ++h) {
    const size_t length = std::min(part_bytes, bytes - h * part_bytes);
    for (int r = 0; r < host_.size(); ++r) {
      std::memcpy(sent_.data() + (h * slots_ + static_cast<size_t>(r)) * part_bytes,
                  host_.copy(r) + offset + h * part_bytes, length);
    }
  }
  MILLRACE_RETURN_IF_ERROR(Run(Collective::kAllToAll, Bytes(sent_.data(), sent_.size()),
                               Bytes(taken_.data(), taken_.size()), await));
  std::vector<const void*> in;
  for (size_t rank = 0; rank < groups_.host_of.size(); ++rank) {
    const size_t slot = static_cast<size_t>(groups_.host_of[rank]) * slots_ +
                        static_cast<size_t>(groups_.local_of[rank]);
    in.push_back(taken_.data() + slot * part_bytes);
  }
  std::byte* const own = sums_.data() + static_cast<size_t>(cross_.rank()) * part_bytes;
  void* const out = own;
  SumAndStore(dtype, in, {&out, 1}, part_bytes / SizeOf(dtype), divisor);
  return Run(Collective::kAllGather, Bytes(own, part_bytes), Bytes(sums_.data(), sums_.size()),
             await);
}

absl::Status ExactExchange::Run(Collective kind, const TensorView& in, const TensorView& out,
                                const Await& await) {
  return await(cross_.Start({.kind = kind, .in = in, .out = out, .agreed = true}));
}

}  // namespace millrace::collectives
