#include "collectives/reducer/exact_exchange.h"

#include <algorithm>
#include <cstring>

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

void ExactExchange::Begin(DType dtype, size_t offset, size_t bytes) {
  const size_t even = (bytes + num_hosts_ * kLine - 1) / (num_hosts_ * kLine) * kLine;
  const size_t room = kMaxBufferBytes / (num_hosts_ * slots_) / kLine * kLine;
  dtype_ = dtype;
  part_bytes_ = std::min({even, std::max(room, kLine), kMaxPartBytes});
  offset_ = offset;
  left_ = bytes;
  stage_ = Stage::kScatter;
  const size_t piece = part_bytes_ * num_hosts_;
  sent_.resize(piece * slots_);
  taken_.resize(piece * slots_);
  sums_.resize(piece);
}

std::unique_ptr<Pending> ExactExchange::Next(float divisor, SquareSums* squares) {
  if (stage_ == Stage::kSum) return Sum(divisor);
  if (stage_ == Stage::kStore) Store(squares);
  return left_ > 0 ? Scatter() : nullptr;
}

std::unique_ptr<Pending> ExactExchange::Scatter() {
  const size_t bytes = piece_bytes();
  for (size_t h = 0; h * part_bytes_ < bytes; ++h) {
    const size_t length = std::min(part_bytes_, bytes - h * part_bytes_);
    for (int r = 0; r < host_.size(); ++r) {
      std::memcpy(sent_.data() + (h * slots_ + static_cast<size_t>(r)) * part_bytes_,
                  host_.copy(r) + offset_ + h * part_bytes_, length);
    }
  }
  stage_ = Stage::kSum;
  return Start(Collective::kAllToAll, Bytes(sent_.data(), sent_.size()),
               Bytes(taken_.data(), taken_.size()));
}

std::unique_ptr<Pending> ExactExchange::Sum(float divisor) {
  std::vector<const void*> in;
  for (size_t rank = 0; rank < groups_.host_of.size(); ++rank) {
    const size_t slot = static_cast<size_t>(groups_.host_of[rank]) * slots_ +
                        static_cast<size_t>(groups_.local_of[rank]);
    in.push_back(taken_.data() + slot * part_bytes_);
  }
  std::byte* const own = sums_.data() + static_cast<size_t>(cross_.rank()) * part_bytes_;
  void* const out = own;
  SumAndStore(dtype_, in, {&out, 1}, part_bytes_ / SizeOf(dtype_), divisor);
  stage_ = Stage::kStore;
  return Start(Collective::kAllGather, Bytes(own, part_bytes_), Bytes(sums_.data(), sums_.size()));
}

void ExactExchange::Store(SquareSums* squares) {
  const size_t bytes = piece_bytes();
  std::vector<void*> copies(static_cast<size_t>(host_.size()));
  for (int r = 0; r < host_.size(); ++r) copies[r] = host_.copy(r) + offset_;
  const void* const sum = sums_.data();
  SumAndStore(dtype_, {&sum, 1}, copies, bytes / SizeOf(dtype_), 1, squares);
  offset_ += bytes;
  left_ -= bytes;
}

std::unique_ptr<Pending> ExactExchange::Start(Collective kind, const TensorView& in,
                                              const TensorView& out) {
  return cross_.Start({.kind = kind, .in = in, .out = out, .agreed = true});
}

}  // namespace millrace::collectives
