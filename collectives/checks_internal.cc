#include "collectives/checks_internal.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/reduce_internal.h"

namespace millrace::collectives {

absl::Status CheckView(const ConstTensorView& view) {
  if (!IsTaken(view.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("element type ", ToAbsl(millrace::Name(view.dtype)),
                     " is not taken (float32, float64, int32, int64, uint8 are)"));
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

absl::Status CheckBlocks(const ConstTensorView& data, int size) {
  MILLRACE_RETURN_IF_ERROR(CheckView(data));
  if (data.shape.num_elements() % size == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(data.shape.num_elements(), " elements do not make ", size, " equal blocks"));
}

absl::Status CheckGather(const ConstTensorView& in, const ConstTensorView& out, int size) {
  MILLRACE_RETURN_IF_ERROR(CheckView(in));
  MILLRACE_RETURN_IF_ERROR(CheckView(out));
  if (in.dtype != out.dtype) {
    return absl::InvalidArgumentError(absl::StrCat("input is ", ToAbsl(millrace::Name(in.dtype)),
                                                   ", output ", ToAbsl(millrace::Name(out.dtype))));
  }
  if (out.shape.num_elements() == in.shape.num_elements() * size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("output of ", out.shape.num_elements(),
                                                 " elements is not ", size, " blocks of ",
                                                 in.shape.num_elements()));
}

absl::Status CheckRooted(const ConstTensorView& data, int root, int size) {
  MILLRACE_RETURN_IF_ERROR(CheckView(data));
  if (root >= 0 && root < size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("root ", root, " is not a rank of ", size));
}

absl::Status CheckPeer(const ConstTensorView& data, int peer, int rank, int size) {
  MILLRACE_RETURN_IF_ERROR(CheckView(data));
  if (peer >= 0 && peer < size && peer != rank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("peer ", peer, " is not another rank of ", size, " (this is rank ", rank, ")"));
}

absl::Status CheckColor(int color) {
  if (color >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("color ", color, " is negative"));
}

}  // namespace millrace::collectives
