#include "collectives/weights_digest.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace::collectives {
namespace {

absl::StatusOr<std::vector<uint64_t>> Gather(Communicator& communicator,
                                             std::span<const uint64_t> own) {
  const auto count = static_cast<int64_t>(own.size());
  std::vector<uint64_t> all(own.size() * static_cast<size_t>(communicator.size()));
  MILLRACE_RETURN_IF_ERROR(
      communicator.AllGather({own.data(), DType::kI64, Shape{count}},
                             {all.data(), DType::kI64, Shape{count * communicator.size()}}));
  return all;
}

}  // namespace

uint64_t DigestOf(const ConstTensorView& view) { return XXH3_64bits(view.data, view.size_bytes()); }

absl::Status CompareWeights(Communicator& communicator, std::span<const NamedTensor> weights) {
  std::vector<uint64_t> digests;
  for (const NamedTensor& tensor : weights) digests.push_back(DigestOf(tensor.view));
  const size_t count = digests.size();
  const std::array<uint64_t, 2> own = {count,
                                       XXH3_64bits(digests.data(), count * sizeof(uint64_t))};
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> heads, Gather(communicator, own));
  for (size_t r = 2; r < heads.size(); r += 2) {
    if (heads[r] == heads[0]) continue;
    return MarkAgreed(absl::DataLossError(
        absl::StrCat("rank 0 has ", heads[0], " parameters, rank ", r / 2, " ", heads[r])));
  }
  const bool equal = [&heads] {
    for (size_t r = 2; r < heads.size(); r += 2) {
      if (heads[r + 1] != heads[1]) return false;
    }
    return true;
  }();
  if (equal) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> all, Gather(communicator, digests));
  for (size_t i = 0; i < count; ++i) {
    for (size_t r = 1; r < static_cast<size_t>(communicator.size()); ++r) {
      if (all[r * count + i] == all[i]) continue;
      return MarkAgreed(
          absl::DataLossError(absl::StrCat("parameter '", ToAbsl(weights[i].name), "' of rank ", r,
                                           " has other bits than rank 0's")));
    }
  }
  return absl::OkStatus();
}

absl::Status WeightsWatch::AfterStep(int64_t step, Communicator& communicator,
                                     std::span<const NamedTensor> weights) const {
  if (every_steps_ <= 0 || step % every_steps_ != 0) return absl::OkStatus();
  return Annotate(CompareWeights(communicator, weights), absl::StrCat("after step ", step));
}

}  // namespace millrace::collectives
