#include "collectives/gather_texts.h"

#include <algorithm>
#include <cstdint>

#include "base/status.h"

namespace millrace::collectives {

// Blocks of AllGather have one size, so texts are filled up to the longest.
absl::StatusOr<std::vector<std::string>> GatherTexts(Communicator& communicator,
                                                     std::string_view own) {
  const int64_t ranks = communicator.size();
  const auto size = static_cast<int64_t>(own.size());
  std::vector<int64_t> sizes(ranks);
  MILLRACE_RETURN_IF_ERROR(communicator.AllGather({&size, DType::kI64, Shape{1}},
                                                  {sizes.data(), DType::kI64, Shape{ranks}}));
  const int64_t longest = *std::ranges::max_element(sizes);
  std::vector<std::string> texts(ranks);
  if (longest == 0) return texts;
  std::string block(own);
  block.resize(longest);
  std::string blocks(longest * ranks, '\0');
  MILLRACE_RETURN_IF_ERROR(
      communicator.AllGather({block.data(), DType::kU8, Shape{longest}},
                             {blocks.data(), DType::kU8, Shape{longest * ranks}}));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    texts[rank] = blocks.substr(rank * longest, sizes[rank]);
  }
  return texts;
}

}  // namespace millrace::collectives
