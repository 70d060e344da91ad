// NCCL sums 16-bit numbers in 16 bits and in an order of its own. Sums in float32, or in the order
// of ranks, are therefore made by a pass of ours, of data that NCCL exchanges: each rank gets its
// share of the bucket from all (AllToAll), sums it, and gives it to the others (AllGather), which
// are as many bytes on the wire as the ring's.

#include "collectives/reducer/device_sums.h"

#include <cstring>

#include "base/status.h"

namespace millrace::collectives {

DeviceSums::DeviceSums(const BucketPlan& plan, const ReducerOptions& options, DeviceMemory& device,
                       const UserBuffers* memory)
    : plan_(plan),
      options_(options),
      device_(device),
      memory_(memory),
      rank_(device.device().rank()),
      size_(device.device().size()) {}

TensorView DeviceSums::Whole(size_t bucket) const {
  const BucketPlan::Bucket& one = plan_.buckets[bucket];
  const auto count = static_cast<int64_t>(one.bytes / SizeOf(one.dtype));
  return {device_.buckets() + one.offset, one.dtype, Shape{count}};
}

std::vector<TensorView> DeviceSums::PartsOf(size_t bucket) const {
  if (device_.buckets() != nullptr) return {Whole(bucket)};
  std::vector<TensorView> parts;
  for (const size_t gradient : plan_.buckets[bucket].gradients) {
    if (plan_.counts[gradient] > 0) parts.push_back(memory_->view(gradient));
  }
  return parts;
}

TensorView DeviceSums::Part(const TensorView& whole, size_t begin, size_t count) {
  std::byte* const data = static_cast<std::byte*>(whole.data) + begin * SizeOf(whole.dtype);
  return {data, whole.dtype, Shape{static_cast<int64_t>(count)}};
}

TensorView DeviceSums::OwnShare(const TensorView& whole) const {
  const size_t count = static_cast<size_t>(whole.shape.num_elements() / size_);
  return Part(whole, count * static_cast<size_t>(rank_), count);
}

size_t DeviceSums::OwnBytes(size_t bucket) const {
  return plan_.buckets[bucket].bytes / static_cast<size_t>(options_.shard ? size_ : 1);
}

size_t DeviceSums::OwnOffset(size_t bucket) const {
  const size_t place = options_.shard ? static_cast<size_t>(rank_) : 0;
  return plan_.buckets[bucket].offset + place * OwnBytes(bucket);
}

bool DeviceSums::IsWired(size_t bucket) const {
  return size_ > 1 && options_.wire != DType::kF32 && plan_.buckets[bucket].dtype == DType::kF32;
}

void DeviceSums::Start(Collective kind, const TensorView& in, const TensorView& out, Calls& calls) {
  calls.push_back(device_.device().Start(
      {.kind = kind, .in = in, .out = out, .op = ReduceOp::kSum, .agreed = true}));
}

absl::Status DeviceSums::AddMicroBatch(size_t i, const TensorView& gradient, bool first,
                                       bool last) {
  if (plan_.counts[i] == 0 || (first && last)) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(device_.FollowGradients());
  float* const sums = device_.sums_of(i);
  return device_.queue().Sum({.first = first ? nullptr : sums,
                              .blocks = gradient.data,
                              .in_type = gradient.dtype,
                              .out = last ? gradient.data : sums,
                              .out_type = last ? gradient.dtype : DType::kF32,
                              .count = plan_.counts[i]});
}

absl::Status DeviceSums::BeginStep(int64_t rows, Calls& calls) {
  if (WantsSquares(options_)) {
    const size_t bytes = static_cast<size_t>(size_) * sizeof(double);
    MILLRACE_RETURN_IF_ERROR(device_.queue().Zero(device_.squares(), bytes));
  }
  if (!options_.average_by_rows) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(device_.queue().Set(device_.rows(), rows));
  const TensorView view = {device_.rows(), DType::kI64, Shape{1}};
  Start(Collective::kAllReduce, view, view, calls);
  return absl::OkStatus();
}

absl::Status DeviceSums::Sum(size_t bucket, int64_t rows, Calls& calls) {
  if (bucket == 0) MILLRACE_RETURN_IF_ERROR(BeginStep(rows, calls));
  if (is_staged()) MILLRACE_RETURN_IF_ERROR(CopyIn(bucket));
  MILLRACE_RETURN_IF_ERROR(SumInPlace(bucket, calls));
  return is_staged() ? CopyOut(bucket) : absl::OkStatus();
}

absl::Status DeviceSums::Connect(size_t bucket, Calls& calls) {
  if (bucket == 0) MILLRACE_RETURN_IF_ERROR(BeginStep(0, calls));
  MILLRACE_RETURN_IF_ERROR(SumInPlace(bucket, calls));
  if (options_.shard) GatherInPlace(bucket, calls);
  return absl::OkStatus();
}

absl::Status DeviceSums::SumInPlace(size_t bucket, Calls& calls) {
  if (options_.exact || IsWired(bucket)) {
    MILLRACE_RETURN_IF_ERROR(SumInOrder(bucket, calls));
  } else {
    MILLRACE_RETURN_IF_ERROR(options_.shard ? Scatter(bucket, calls) : SumTogether(bucket, calls));
  }
  return AddSquares(bucket, calls);
}

// By NCCL, in its order.
absl::Status DeviceSums::SumTogether(size_t bucket, Calls& calls) {
  for (const TensorView& part : PartsOf(bucket)) {
    Start(Collective::kAllReduce, part, part, calls);
    if (divisor() == nullptr) continue;
    MILLRACE_RETURN_IF_ERROR(
        device_.queue().Sum({.blocks = part.data,
                             .in_type = part.dtype,
                             .out = part.data,
                             .out_type = part.dtype,
                             .count = static_cast<size_t>(part.shape.num_elements()),
                             .rows = divisor()}));
  }
  return absl::OkStatus();
}

absl::Status DeviceSums::Scatter(size_t bucket, Calls& calls) {
  const TensorView whole = Whole(bucket);
  const TensorView own = OwnShare(whole);
  const TensorView taken = {device_.blocks(), own.dtype, own.shape};
  Start(Collective::kReduceScatter, whole, taken, calls);
  return device_.queue().Sum({.blocks = taken.data,
                              .in_type = taken.dtype,
                              .out = own.data,
                              .out_type = own.dtype,
                              .count = static_cast<size_t>(own.shape.num_elements()),
                              .rows = divisor()});
}

// In float32 and in the order of ranks. Numbers that were rounded for the wire are divided behind
// it, as between hosts.
absl::Status DeviceSums::SumInOrder(size_t bucket, Calls& calls) {
  DeviceQueue& queue = device_.queue();
  const TensorView whole = Whole(bucket);
  const auto count = static_cast<size_t>(whole.shape.num_elements());
  TensorView sent = whole;
  const BlockSum narrow = {.blocks = whole.data,
                           .in_type = whole.dtype,
                           .out = device_.narrow(),
                           .out_type = options_.wire,
                           .count = count};
  if (IsWired(bucket)) {
    sent = {narrow.out, narrow.out_type, whole.shape};
    MILLRACE_RETURN_IF_ERROR(queue.Sum(narrow));
  }
  const TensorView taken = {device_.blocks(), sent.dtype, sent.shape};
  Start(Collective::kAllToAll, sent, taken, calls);
  const bool gathers = !options_.shard;
  const TensorView own = OwnShare(gathers ? sent : whole);
  const bool divides_later = IsWired(bucket) && gathers;
  MILLRACE_RETURN_IF_ERROR(queue.Sum({.blocks = taken.data,
                                      .in_type = taken.dtype,
                                      .num_blocks = size_,
                                      .out = own.data,
                                      .out_type = own.dtype,
                                      .count = static_cast<size_t>(own.shape.num_elements()),
                                      .rows = divides_later ? nullptr : divisor()}));
  if (!gathers) return absl::OkStatus();
  Start(Collective::kAllGather, own, sent, calls);
  if (!IsWired(bucket)) return absl::OkStatus();
  return queue.Sum({.blocks = sent.data,
                    .in_type = sent.dtype,
                    .out = whole.data,
                    .out_type = whole.dtype,
                    .count = count,
                    .rows = divisor()});
}

// All ranks have the same sums, so each adds the same squares up; of shards they are exchanged at
// the end.
absl::Status DeviceSums::AddSquares(size_t bucket, Calls& calls) {
  if (!WantsSquares(options_)) return absl::OkStatus();
  double* const own = device_.squares() + rank_;
  for (TensorView part : PartsOf(bucket)) {
    if (options_.shard) part = OwnShare(part);
    const auto count = static_cast<size_t>(part.shape.num_elements());
    MILLRACE_RETURN_IF_ERROR(device_.queue().AddSquares(part.data, part.dtype, count, own));
  }
  if (!options_.shard || bucket + 1 < plan_.buckets.size()) return absl::OkStatus();
  const TensorView all = {device_.squares(), DType::kF64, Shape{size_}};
  Start(Collective::kAllGather, OwnShare(all), all, calls);
  return absl::OkStatus();
}

absl::Status DeviceSums::Gather(size_t bucket, Calls& calls) {
  if (is_staged()) MILLRACE_RETURN_IF_ERROR(CopyIn(bucket));
  GatherInPlace(bucket, calls);
  return is_staged() ? CopyOut(bucket) : absl::OkStatus();
}

void DeviceSums::GatherInPlace(size_t bucket, Calls& calls) {
  const TensorView whole = Whole(bucket);
  Start(Collective::kAllGather, OwnShare(whole), whole, calls);
}

absl::Status DeviceSums::CopyIn(size_t bucket) {
  for (const size_t gradient : plan_.buckets[bucket].gradients) {
    const TensorView& view = memory_->view(gradient);
    if (view.size_bytes() == 0) continue;
    MILLRACE_RETURN_IF_ERROR(device_.queue().CopyWithin(device_.buckets() + plan_.offsets[gradient],
                                                        view.data, view.size_bytes()));
  }
  return absl::OkStatus();
}

absl::Status DeviceSums::CopyOut(size_t bucket) {
  for (const size_t gradient : plan_.buckets[bucket].gradients) {
    const TensorView& view = memory_->view(gradient);
    if (view.size_bytes() == 0) continue;
    MILLRACE_RETURN_IF_ERROR(device_.queue().CopyWithin(
        view.data, device_.buckets() + plan_.offsets[gradient], view.size_bytes()));
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceSums::Totals> DeviceSums::Read() {
  std::vector<std::byte> bytes(device_.totals_bytes());
  MILLRACE_RETURN_IF_ERROR(device_.queue().Copy(bytes.data(), device_.rows(), bytes.size()));
  Totals totals;
  std::memcpy(&totals.rows, bytes.data(), sizeof(totals.rows));
  std::vector<double> squares(static_cast<size_t>(size_));
  std::memcpy(squares.data(), &bytes[sizeof(totals.rows)], squares.size() * sizeof(double));
  for (const double of_rank : squares) totals.squares += of_rank;
  return totals;
}

}  // namespace millrace::collectives
