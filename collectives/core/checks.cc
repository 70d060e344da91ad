#include "collectives/core/checks.h"

#include <cstdint>
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/core/reduce.h"

namespace millrace::collectives {
namespace {

// A known shape, memory unless empty, an element type that communicators take.
absl::Status CheckView(const ConstTensorView& view) {
  if (!IsTaken(view.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "element type ", ToAbsl(millrace::Name(view.dtype)),
        " is not taken (float32, float16, bfloat16, float64, int32, int64, uint8 are)"));
  }
  if (!view.shape.IsKnown()) {
    return absl::InvalidArgumentError(absl::StrCat("shape ", view.shape.ToString(), " is unknown"));
  }
  if (view.data == nullptr && view.shape.num_elements() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no memory behind shape ", view.shape.ToString()));
  }
  return absl::OkStatus();
}

absl::Status CheckTypes(const ConstTensorView& in, const ConstTensorView& out) {
  if (in.dtype == out.dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("input is ", ToAbsl(millrace::Name(in.dtype)),
                                                 ", output ", ToAbsl(millrace::Name(out.dtype))));
}

absl::Status CheckBlocks(const ConstTensorView& data, int size) {
  if (data.shape.num_elements() % size == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(data.shape.num_elements(), " elements do not make ", size, " equal blocks"));
}

// `large` is `blocks` times as large as `small`.
absl::Status CheckSizes(const char* large_name, const ConstTensorView& large, int blocks,
                        const ConstTensorView& small) {
  if (large.shape.num_elements() == small.shape.num_elements() * blocks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(large_name, " of ", large.shape.num_elements(),
                                                 " elements is not ", blocks, " blocks of ",
                                                 small.shape.num_elements()));
}

absl::Status CheckOp(const Request& request) {
  const bool whole = request.in.dtype == DType::kU8 || request.in.dtype == DType::kI32 ||
                     request.in.dtype == DType::kI64;
  if (request.op != ReduceOp::kAverage || !whole) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("an average of ", ToAbsl(millrace::Name(request.in.dtype)),
                   " would be rounded: sum, or average floating-point numbers"));
}

absl::Status CheckRoot(int root, int size) {
  if (root >= 0 && root < size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("root ", root, " is not a rank of ", size));
}

absl::Status CheckPeer(int peer, int rank, int size) {
  if (peer >= 0 && peer < size && peer != rank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("peer ", peer, " is not another rank of ", size, " (this is rank ", rank, ")"));
}

// `allowed`: the place in the larger of the two that the smaller one may be, for in-place calls.
absl::Status CheckApart(const ConstTensorView& in, const ConstTensorView& out, const void* smaller,
                        const void* allowed) {
  const auto* in_begin = static_cast<const std::byte*>(in.data);
  const auto* out_begin = static_cast<const std::byte*>(out.data);
  const std::less<const std::byte*> before;
  const bool apart = in.size_bytes() == 0 || out.size_bytes() == 0 || smaller == allowed ||
                     !before(in_begin, out_begin + out.size_bytes()) ||
                     !before(out_begin, in_begin + in.size_bytes());
  if (apart) return absl::OkStatus();
  return absl::InvalidArgumentError("input and output overlap");
}

absl::Status CheckSame(const ConstTensorView& in, const ConstTensorView& out) {
  MILLRACE_RETURN_IF_ERROR(CheckSizes("output", out, 1, in));
  if (in.data == out.data || in.size_bytes() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError("input and output are not the same memory");
}

const void* BlockOf(const ConstTensorView& data, size_t block_bytes, int rank) {
  return static_cast<const std::byte*>(data.data) + block_bytes * rank;
}

absl::Status CheckTransfer(const Request& request, int rank, int size) {
  const ConstTensorView& in = request.in;
  const ConstTensorView out = request.out;
  switch (request.kind) {
    case Collective::kReduceScatter:
      MILLRACE_RETURN_IF_ERROR(CheckOp(request));
      MILLRACE_RETURN_IF_ERROR(CheckSizes("input", in, size, out));
      return CheckApart(in, out, out.data, BlockOf(in, out.size_bytes(), rank));
    case Collective::kAllGather:
      MILLRACE_RETURN_IF_ERROR(CheckSizes("output", out, size, in));
      return CheckApart(in, out, in.data, BlockOf(out, in.size_bytes(), rank));
    case Collective::kAllToAll:
      MILLRACE_RETURN_IF_ERROR(CheckBlocks(in, size));
      MILLRACE_RETURN_IF_ERROR(CheckSizes("output", out, 1, in));
      return CheckApart(in, out, nullptr, in.data);
    case Collective::kReduce:
      MILLRACE_RETURN_IF_ERROR(CheckRoot(request.peer, size));
      [[fallthrough]];
    case Collective::kAllReduce:
      MILLRACE_RETURN_IF_ERROR(CheckOp(request));
      MILLRACE_RETURN_IF_ERROR(CheckSizes("output", out, 1, in));
      return CheckApart(in, out, in.data, out.data);
    case Collective::kBroadcast:
      MILLRACE_RETURN_IF_ERROR(CheckSame(in, out));
      return CheckRoot(request.peer, size);
    default:
      return absl::OkStatus();
  }
}

}  // namespace

absl::Status CheckRequest(const Request& request, int rank, int size) {
  if (request.kind == Collective::kBarrier) return absl::OkStatus();
  if (request.kind == Collective::kSend || request.kind == Collective::kRecv) {
    const bool send = request.kind == Collective::kSend;
    MILLRACE_RETURN_IF_ERROR(CheckView(send ? request.in : ConstTensorView(request.out)));
    return CheckPeer(request.peer, rank, size);
  }
  MILLRACE_RETURN_IF_ERROR(CheckView(request.in));
  if (request.kind == Collective::kReduceScatter) {
    MILLRACE_RETURN_IF_ERROR(CheckBlocks(request.in, size));  // before its block is looked at
  }
  MILLRACE_RETURN_IF_ERROR(CheckView(request.out));
  MILLRACE_RETURN_IF_ERROR(CheckTypes(request.in, request.out));
  return CheckTransfer(request, rank, size);
}

absl::Status CheckColor(int color) {
  if (color >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("color ", color, " is negative"));
}

TensorView OwnBlock(const TensorView& data, int rank, int size) {
  if (!data.shape.IsKnown() || data.shape.num_elements() % size != 0) {
    return {nullptr, data.dtype, Shape{0}};
  }
  const int64_t count = data.shape.num_elements() / size;
  auto* const begin = static_cast<std::byte*>(data.data);
  return {begin + static_cast<size_t>(count) * rank * SizeOf(data.dtype), data.dtype, Shape{count}};
}

}  // namespace millrace::collectives
