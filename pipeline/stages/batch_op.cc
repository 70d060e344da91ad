#include "pipeline/batch_op.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace millrace::pipeline {

FoundTensor<TensorView> BatchView::Find(std::string_view name) const {
  const auto it = std::ranges::find(names, name);
  if (it == names.end()) return {std::string(name), names};
  return {tensors[static_cast<size_t>(it - names.begin())], *it};
}

RandomStream BatchView::Random() const {
  return RandomStream({.seed = seed, .op = stage_key, .epoch = epoch, .record = index});
}

RandomStream BatchView::RandomOfRow(int64_t row) const {
  return RandomStream({.seed = seed,
                       .op = stage_key,
                       .epoch = epoch,
                       .record = index,
                       .sub_index = static_cast<uint64_t>(first_global_row + row) + 1});
}

absl::Status CheckGroupRows(uint64_t group_rows, uint64_t batch_size, uint64_t units, int world) {
  if (group_rows == 1) return absl::OkStatus();
  const auto ranks = static_cast<uint64_t>(world);
  // Where the slice of each rank begins; the last edge is the end of the batch.
  const auto edge = [&](uint64_t rank) {
    const auto unit = static_cast<uint64_t>(static_cast<unsigned __int128>(rank) * units / ranks);
    return unit * (batch_size / units);
  };
  for (uint64_t rank = 1; rank <= ranks; ++rank) {
    if (group_rows != 0 && edge(rank) % group_rows == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the op mixes groups of ", group_rows, " rows, which do not divide the ",
                     "slices of a batch of ", batch_size, " rows over ", world,
                     " ranks: choose a batch size that is a multiple of ", group_rows, " x world"));
  }
  return absl::OkStatus();
}

}  // namespace millrace::pipeline
