#include "trainer/backend/cuda/tensor_copier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/backend/cuda/tensors.h"

namespace millrace::trainer::cuda {
namespace {

constexpr size_t kStagingElements = size_t{1} << 20;

// The elements of a filter, or of an element of another tensor than one of filters.
size_t UnitOf(const Parameter& parameter) {
  const auto size = static_cast<size_t>(parameter.shape.num_elements());
  return parameter.shape.rank() == 4 ? size / static_cast<size_t>(parameter.shape[0]) : 1;
}

absl::Status About(const absl::Status& status, const char* what, const Parameter& parameter) {
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat(what, " of tensor '", parameter.name, "'"));
}

absl::Status CheckSize(const Parameter& parameter, size_t size) {
  if (size == static_cast<size_t>(parameter.shape.num_elements())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor '", parameter.name, "' has ", size, " elements where its shape ",
                   parameter.shape.ToString(), " has ", parameter.shape.num_elements()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorCopier>> TensorCopier::Make(Device& device,
                                                                 const Model& model) {
  size_t size = kStagingElements;
  for (const Parameter& parameter : model.parameters) {
    size = std::max(size, UnitOf(parameter));
  }
  MILLRACE_ASSIGN_OR_RETURN(Memory staging, device.AllocateHost(size * sizeof(float)));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Mark> mark, device.MakeMark());
  return std::unique_ptr<TensorCopier>(
      new TensorCopier(device, size, std::move(staging), std::move(mark)));
}

size_t TensorCopier::PartOf(const Parameter& parameter) const {
  const size_t filter = UnitOf(parameter);
  return size_ / filter * filter;
}

absl::Status TensorCopier::CopyAndWait(void* to, const void* from, size_t elements) {
  MILLRACE_RETURN_IF_ERROR(device_.Copy(to, from, elements * sizeof(float)));
  MILLRACE_RETURN_IF_ERROR(device_.Record(*mark_));
  return device_.Wait(*mark_);
}

absl::Status TensorCopier::Upload(const Parameter& parameter, std::span<const float> from,
                                  const Piece& piece, float* to) {
  MILLRACE_RETURN_IF_ERROR(CheckSize(parameter, from.size()));
  const size_t part = PartOf(parameter);
  for (size_t at = piece.begin / part * part; at < piece.end; at += part) {
    const size_t end = std::min(at + part, from.size());
    ToDeviceOrder(parameter, from.subspan(at, end - at), staging(end - at));
    const size_t wanted = std::max(at, piece.begin);
    MILLRACE_RETURN_IF_ERROR(
        About(CopyAndWait(to + (wanted - piece.begin), &staging(size_)[wanted - at],
                          std::min(end, piece.end) - wanted),
              "upload", parameter));
  }
  return absl::OkStatus();
}

absl::Status TensorCopier::Download(const Parameter& parameter, const float* from,
                                    std::span<float> to) {
  MILLRACE_RETURN_IF_ERROR(CheckSize(parameter, to.size()));
  const size_t part = PartOf(parameter);
  for (size_t at = 0; at < to.size(); at += part) {
    const size_t count = std::min(part, to.size() - at);
    MILLRACE_RETURN_IF_ERROR(
        About(CopyAndWait(staging_.get(), from + at, count), "download", parameter));
    FromDeviceOrder(parameter, staging(count), to.subspan(at, count));
  }
  return absl::OkStatus();
}

}  // namespace millrace::trainer::cuda
